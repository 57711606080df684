"""`postroom list`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call, place_of_store
from postroom.cli.support.running import with_settings

if TYPE_CHECKING:
    from postroom.domain.audience.lists import MailingList
    from postroom.settings import Settings
    from postroom.wiring import Services


_language_option = partial(
    click.option,
    "--language",
    help="What footers and confirmation emails speak: en, fr, de, ko or ru.",
)
_postal_address_option = partial(
    click.option,
    "--postal-address",
    help="Shown at the end of every email; may have several lines.",
)


@click.group("list")
def lists() -> None:
    """Mailing lists."""


@lists.command()
@click.argument("name")
@click.option("--description", required=True, help="What subscribers see, e.g. in the From field.")
@click.option("--from", "from_address", required=True, help="The address that mails come from.")
@click.option(
    "--public/--private", default=True, show_default=True, help="Who may sign up on the page."
)
@_language_option(default="en", show_default=True)
@_postal_address_option(default="")
@output.json_option
@with_settings
def create(
    settings: Settings,
    name: str,
    description: str,
    from_address: str,
    public: bool,
    language: str,
    postal_address: str,
    as_json: bool,
) -> None:
    """Make a list."""
    made = call(
        settings,
        lambda s: s.lists.create(
            name,
            description,
            from_address,
            public=public,
            language=language,
            postal_address=postal_address,
        ),
    )
    _show(made, as_json, f"The list {made.name} is there.")


@lists.command()
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(settings: Settings, limit: int, after: str | None, as_json: bool) -> None:
    """Show the lists, in the order of their names."""
    from postroom.services import shapes

    page = call(settings, lambda s: s.lists.page(limit=limit, after=after))
    if as_json:
        output.print_json({"items": list(map(shapes.of_list, page.lists)), "next": page.next})
        return
    if not page.lists:
        output.note(
            f"There are no lists in {place_of_store(settings)}: make one with postroom list create."
        )
        return
    rows = [
        (each.name, output.plain(each.description), each.from_address, output.when(each.created_at))
        for each in page.lists
    ]
    output.console().print(output.table(("list", "description", "from", "created"), rows))
    output.more(page.next, "postroom list ls")


@lists.command()
@click.argument("name")
@click.option("--count", is_flag=True, help="Count the subscribers: reads all of them.")
@output.json_option
@with_settings
def show(settings: Settings, name: str, count: bool, as_json: bool) -> None:
    """Show one list."""

    async def look(services: Services) -> tuple[MailingList, dict[str, int]]:
        found = await services.lists.get(name)
        return found, await _count(services, found) if count else {}

    found, counts = call(settings, look)
    _show(found, as_json, None, counts)


@lists.command()
@click.argument("name")
@click.option("--description")
@click.option("--from", "from_address", help="The address that mails come from.")
@click.option("--public/--private", default=None, help="Whether everybody may sign up.")
@_language_option()
@_postal_address_option()
@output.json_option
@with_settings
def edit(
    settings: Settings,
    name: str,
    description: str | None,
    from_address: str | None,
    public: bool | None,
    language: str | None,
    postal_address: str | None,
    as_json: bool,
) -> None:
    """Change a list: only what is given changes. An empty --postal-address removes it."""
    if all(x is None for x in (description, from_address, public, language, postal_address)):
        raise click.UsageError(
            "say what to change: --description, --from, --public, --private, --language"
            " or --postal-address"
        )
    saved = call(
        settings,
        lambda s: s.lists.edit(
            name,
            description=description,
            from_address=from_address,
            public=public,
            language=language,
            postal_address=postal_address,
        ),
    )
    _show(saved, as_json, f"The list {saved.name} is changed.")


@lists.command()
@click.argument("name")
@output.yes_option
@output.json_option
@with_settings
def delete(settings: Settings, name: str, yes: bool, as_json: bool) -> None:
    """Delete a list with all its subscribers.

    Not while a message for it is not done. An interrupted deletion is finished by deleting again.
    """
    output.confirm(f"Delete the list {name} with all its subscribers?", yes=yes)
    removed = call(settings, lambda s: s.lists.delete(name))
    if as_json:
        output.print_json({"name": name, "removed_subscribers": removed})
    else:
        output.say(f"The list {name} is deleted, with {removed:,} subscribers.")


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
    from postroom.services import shapes

    if as_json:
        output.print_json({**shapes.of_list(mailing_list), **(counts or {})})
        return
    if news is not None:
        output.say(news)
    values: dict[str, Any] = {
        "list": mailing_list.name,
        "description": output.plain(mailing_list.description),
        "from": mailing_list.from_address,
        "language": mailing_list.language,
        "postal address": output.plain(mailing_list.postal_address or "(none)"),
        "created": output.when(mailing_list.created_at),
        **{name: f"{count:,}" for name, count in (counts or {}).items()},
    }
    output.console().print(output.details(values))
