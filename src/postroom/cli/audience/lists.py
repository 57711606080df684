"""`postroom list`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from postroom.cli.audience.list_emails import list_email
from postroom.cli.support import output
from postroom.cli.support.running import call, place_of_store, with_settings
from postroom.domain.audience.lists.list_property import Input, ListProperty
from postroom.domain.audience.lists.lists import PROPERTIES
from postroom.services.resources.audience import describe_list

if TYPE_CHECKING:
    from rich.text import Text

    from postroom.domain.audience.lists.lists import MailingList
    from postroom.settings import Settings
    from postroom.wiring import Services

F = TypeVar("F", bound=Callable[..., Any])
_PROPERTIES: Final = tuple(each for each in PROPERTIES.values() if each.in_api)
# The option that turns a flag off, where "--no-" with its name would read badly.
_OPPOSITES: Final = {"public": "--private", "noindex": "--index"}


def _property_options(*, is_new: bool) -> Callable[[F], F]:
    """Give a command an option for each property of a list."""

    def decorate(command: F) -> F:
        for each in reversed(_PROPERTIES):
            command = _property_option(each, is_new=is_new)(command)
        return command

    return decorate


def _property_option(of: ListProperty, *, is_new: bool) -> Callable[[F], F]:
    help_text = of.help.replace("’", "'")
    if of.choices:
        help_text += f" One of {', '.join(of.choices)}."
    option = "--from" if of.name == "from_address" else f"--{of.name.replace('_', '-')}"
    if of.input is Input.FLAG:
        opposite = _OPPOSITES.get(of.name, f"--no-{option[2:]}")
        default = of.default if is_new else None
        return click.option(
            f"{option}/{opposite}", of.name, default=default, show_default=is_new, help=help_text
        )
    if is_new and of.is_required:
        return click.option(option, of.name, required=True, help=help_text)
    default = (of.default or None) if is_new else None
    return click.option(
        option, of.name, default=default, show_default=bool(default), help=help_text
    )


@click.group("list")
def lists() -> None:
    """Manage mailing lists."""


lists.add_command(list_email)


@lists.command()
@click.argument("name")
@_property_options(is_new=True)
@output.json_option
@with_settings
def create(
    settings: Settings,
    name: str,
    description: str,
    from_address: str,
    as_json: bool,
    **others: str | bool | None,
) -> None:
    """Create a list."""
    created = call(settings, lambda s: s.lists.create(name, description, from_address, **others))
    _show(created, as_json, f"List {created.name} created.")


@lists.command()
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(settings: Settings, limit: int, after: str | None, as_json: bool) -> None:
    """Show all lists, sorted by name."""
    found = call(settings, lambda s: s.lists.slice(limit=limit, after=after))
    if as_json:
        output.print_items(map(describe_list, found.lists), found.next)
        return
    if not found.lists:
        output.note(
            f"No lists in {place_of_store(settings)}. Create one with: postroom list create"
        )
        return
    rows = [
        (each.name, output.plain(each.description), each.from_address, output.when(each.created_at))
        for each in found.lists
    ]
    output.console().print(output.table(("list", "description", "from", "created"), rows))
    output.more(found.next, "postroom list ls")


@lists.command()
@click.argument("name")
@click.option("--count", is_flag=True, help="Count the subscribers, which reads them all.")
@output.json_option
@with_settings
def show(settings: Settings, name: str, count: bool, as_json: bool) -> None:
    """Show one list."""

    async def read(services: Services) -> tuple[MailingList, dict[str, int]]:
        found = await services.lists.get(name)
        return found, await _count(services, found) if count else {}

    found, counts = call(settings, read)
    _show(found, as_json, None, counts)


@lists.command()
@click.argument("name")
@_property_options(is_new=False)
@output.json_option
@with_settings
def edit(settings: Settings, name: str, as_json: bool, **changes: Any) -> None:
    """Change a list. Options that you omit stay as they are; an empty text clears one."""
    if all(value is None for value in changes.values()):
        raise click.UsageError("nothing to change: give at least one option, such as --description")
    saved = call(settings, lambda s: s.lists.edit(name, **changes))
    _show(saved, as_json, f"List {saved.name} saved.")


@lists.command()
@click.argument("name")
@output.yes_option
@output.json_option
@with_settings
def delete(settings: Settings, name: str, yes: bool, as_json: bool) -> None:
    """Delete a list with all its subscribers.

    Refused while one of its messages is unfinished. If the deletion is interrupted, run it again.
    """
    output.confirm(f"Delete the list {name} with all its subscribers?", yes=yes)
    removed = call(settings, lambda s: s.lists.delete(name))
    if as_json:
        output.print_json({"list": name, "removed_subscribers": removed})
    else:
        output.say(f"List {name} deleted, with {output.counted(removed, 'subscriber')}.")


async def _count(services: Services, mailing_list: MailingList) -> dict[str, int]:
    counts = {"subscribers": 0, "verified": 0, "blocked": 0}
    async for subscriber in services.subscriptions.all(mailing_list.name):
        counts["subscribers"] += 1
        counts["verified"] += subscriber.verified
        counts["blocked"] += bool(subscriber.blocked)
    return counts


def _show(
    mailing_list: MailingList,
    as_json: bool,
    news: str | None,
    counts: dict[str, int] | None = None,
) -> None:
    if as_json:
        output.print_json({**output.builtins(describe_list(mailing_list)), **(counts or {})})
        return
    if news is not None:
        output.say(news)
    values: dict[str, Any] = {
        "list": mailing_list.name,
        **{each.label.lower(): _property_value(mailing_list, each) for each in _PROPERTIES},
        "created": output.when(mailing_list.created_at),
        **{name: f"{count:,}" for name, count in (counts or {}).items()},
    }
    output.console().print(output.details(values))


def _property_value(mailing_list: MailingList, wanted: ListProperty) -> Text:
    value = getattr(mailing_list, wanted.name)
    return output.yes_or_no(value) if wanted.type is bool else output.plain(value or "(none)")
