"""`postroom subscriber`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from postroom.cli.audience.csv_files import export_list, import_file
from postroom.cli.audience.listmonk import import_listmonk
from postroom.cli.audience.personal_data import erase, export_data, shown_state
from postroom.cli.support import output
from postroom.cli.support.inactivity import inactive_days_option
from postroom.cli.support.running import call, read_pairs, with_settings
from postroom.domain.audience.consent import BY_COMMAND
from postroom.services.resources.audience import describe_removal, describe_subscriber

if TYPE_CHECKING:
    from postroom.domain.audience.lists.lists import Subscriber
    from postroom.services.audience.bulk_changes import BulkReport
    from postroom.settings import Settings
    from postroom.wiring import Services

_SEARCH_SECONDS = 60.0  # a search through many millions continues with --after

_field_option = click.option(
    "--field",
    "fields",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of a field. An empty value removes it. Can be repeated.",
)


@click.group("subscriber")
def subscribers() -> None:
    """Manage the subscribers of a list; import and export."""


subscribers.add_command(import_file)
subscribers.add_command(import_listmonk)
subscribers.add_command(export_list)
subscribers.add_command(export_data)
subscribers.add_command(erase)


@subscribers.command()
@click.argument("list_name", metavar="LIST")
@click.argument("email")
@click.option("--verified", is_flag=True, help="The owner has agreed; no confirmation needed.")
@_field_option
@output.json_option
@with_settings
def add(
    settings: Settings,
    list_name: str,
    email: str,
    verified: bool,
    fields: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add an address to a list. Only confirmed subscribers get messages (see `ask`)."""
    texts = read_pairs(fields, "--field")

    async def work(services: Services) -> Subscriber:
        attributes = (await services.fields.get(list_name)).fields.parse(texts)
        return await services.subscriptions.add(
            list_name, email, verified=verified, attributes=attributes, source=BY_COMMAND
        )

    added = call(settings, work)
    _show(added, as_json, f"{added.address} added to {added.list_name}.")


@subscribers.command()
@click.argument("list_name", metavar="LIST")
@click.argument("email")
@output.json_option
@with_settings
def ask(settings: Settings, list_name: str, email: str, as_json: bool) -> None:
    """Send a confirmation email to an unverified subscriber.

    At most two in five minutes and three per day, as for sign-ups.
    """
    asked = call(settings, lambda s: s.subscriptions.ask(list_name, email))
    _show(asked, as_json, f"Confirmation email to {asked.address} queued.")


@subscribers.command()
@click.argument("list_name", metavar="LIST")
@click.option("--prefix", default="", help="Addresses that begin with this.")
@click.option("--contains", default="", help="Addresses that contain this.")
@click.option("--verified/--unverified", default=None, help="Filter by state.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(
    settings: Settings,
    list_name: str,
    prefix: str,
    contains: str,
    verified: bool | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """Show the subscribers of a list, sorted by address. Case is ignored."""
    from postroom.services.audience.signup.subscriber_reading import SubscriberSlice
    from postroom.services.audience.subscriber_search import FoundSubscribers, SubscriberState

    async def find(services: Services) -> SubscriberSlice | FoundSubscribers:
        if not contains:
            return await services.subscriptions.slice(
                list_name, verified=verified, prefix=prefix, limit=limit, after=after
            )
        state = None
        if verified is not None:
            state = SubscriberState.VERIFIED if verified else SubscriberState.UNVERIFIED
        return await services.search.find(
            list_name,
            state=state,
            prefix=prefix,
            contains=contains,
            limit=limit,
            after=after or "",
            seconds=_SEARCH_SECONDS,
        )

    page = call(settings, find)
    if as_json:
        items = list(map(describe_subscriber, page.subscribers))
        output.print_items(items, page.next)
        return
    if not page.subscribers:
        output.note("None.")
        return
    rows = [
        (output.plain(each.address), shown_state(each), output.when(each.created_at))
        for each in page.subscribers
    ]
    output.console().print(output.table(("address", "state", "since"), rows))
    output.more(page.next, f"postroom subscriber ls {list_name}")


@subscribers.command()
@click.argument("list_name", metavar="LIST")
@click.argument("email")
@output.json_option
@with_settings
def show(settings: Settings, list_name: str, email: str, as_json: bool) -> None:
    """Show one subscriber."""
    _show(call(settings, lambda s: s.subscriptions.get(list_name, email)), as_json)


@subscribers.command()
@click.argument("list_name", metavar="LIST")
@click.argument("email")
@click.option("--verify/--unverify", "verified", default=None, help="Whether they get messages.")
@click.option("--block", "blocked", metavar="REASON", help="Stop sending to them, for this reason.")
@click.option("--unblock", is_flag=True, help="Resume sending to them.")
@click.option("--note", help="A note that only your team sees. An empty one removes it.")
@_field_option
@output.json_option
@with_settings
def edit(
    settings: Settings,
    list_name: str,
    email: str,
    verified: bool | None,
    blocked: str | None,
    unblock: bool,
    note: str | None,
    fields: tuple[str, ...],
    as_json: bool,
) -> None:
    """Verify or block a subscriber, or change fields or note."""
    if blocked is not None and unblock:
        raise click.UsageError("give --block or --unblock, not both")
    if blocked is not None and not blocked.strip():
        raise click.UsageError("--block needs a reason")
    if verified is None and blocked is None and note is None and not unblock and not fields:
        raise click.UsageError(
            "nothing to change: give --verify, --unverify, --block REASON, --unblock, --note"
            " or --field"
        )
    texts = read_pairs(fields, "--field")

    async def work(services: Services) -> Subscriber:
        parsed = (await services.fields.get(list_name)).fields.parse(texts)
        return await services.subscriptions.edit(
            list_name,
            email,
            verified=verified,
            blocked="" if unblock else blocked,
            attributes={**dict.fromkeys(texts), **parsed} if texts else None,
            note=note,
            source=BY_COMMAND,
        )

    saved = call(settings, work)
    _show(saved, as_json, f"{saved.address} saved.")


@subscribers.command()
@click.argument("list_name", metavar="LIST")
@click.argument("email")
@output.json_option
@with_settings
def remove(settings: Settings, list_name: str, email: str, as_json: bool) -> None:
    """Remove an address from a list."""
    call(settings, lambda s: s.subscriptions.remove(list_name, email, source=BY_COMMAND))
    if as_json:
        output.print_json({"list": list_name, "email": email, "removed": True})
    else:
        output.say(f"{email} removed from {list_name}.")


@subscribers.command("change-address")
@click.argument("list_name", metavar="LIST")
@click.argument("email")
@click.argument("new_email")
@output.json_option
@with_settings
def change_address(
    settings: Settings, list_name: str, email: str, new_email: str, as_json: bool
) -> None:
    """Change the address of a subscriber. Links in earlier emails still work."""
    saved = call(
        settings,
        lambda s: s.subscriptions.change_address(list_name, email, new_email, source=BY_COMMAND),
    )
    _show(saved, as_json, f"{email} changed to {saved.address}.")


@subscribers.command()
@click.argument("list_name", metavar="LIST")
@click.argument("email")
@click.argument("to_list")
@output.json_option
@with_settings
def move(settings: Settings, list_name: str, email: str, to_list: str, as_json: bool) -> None:
    """Move a subscriber to another list. If it is interrupted, run it again."""
    moved = call(settings, lambda s: s.subscriptions.move(list_name, email, to_list, BY_COMMAND))
    _show(moved, as_json, f"{moved.address} moved to {moved.list_name}.")


def _show(subscriber: Subscriber, as_json: bool, news: str | None = None) -> None:
    if as_json:
        output.print_json(describe_subscriber(subscriber))
        return
    if news is not None:
        output.say(news)
    output.console().print(
        output.details(
            {
                "list": subscriber.list_name,
                "address": output.plain(subscriber.address),
                "state": shown_state(subscriber),
                "since": output.when(subscriber.created_at),
                "verified": output.when(subscriber.verified_at),
                **_further_details(subscriber),
                **{
                    name: output.plain(_shown_value(value))
                    for name, value in subscriber.attributes.items()
                },
                "GUID": subscriber.guid,
            }
        )
    )


def _further_details(subscriber: Subscriber) -> dict[str, Any]:
    """Return the details that few subscribers have."""
    texts = {
        "formerly": ", ".join(subscriber.former_addresses),
        "consent": subscriber.consent,
        "tracking": "agreed" if subscriber.tracking else "",
        "note": subscriber.note,
    }
    paused = {"paused until": output.when(subscriber.paused_until)}
    return {
        **(paused if subscriber.paused_until else {}),
        **{name: output.plain(text) for name, text in texts.items() if text},
    }


def _shown_value(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


@subscribers.command("remove-inactive")
@click.argument("list_name", metavar="LIST")
@inactive_days_option
@click.option(
    "--received",
    metavar="REF",
    help="Only recipients of this win-back message. [default: everyone who is inactive]",
)
@output.yes_option
@output.json_option
@with_settings
def remove_inactive(
    settings: Settings, list_name: str, days: str, received: str | None, yes: bool, as_json: bool
) -> None:
    """Remove inactive subscribers from a list.

    With --received, only those who received the win-back message and did not respond. Those who
    read without pictures and click nothing look inactive, too.
    """

    async def work(services: Services) -> BulkReport:
        segment = await services.inactive.segment(list_name, int(days), received)
        return await services.inactive.remove(segment)

    output.confirm(f"Remove the inactive subscribers of {list_name}?", yes=yes)
    report = call(settings, work)
    if as_json:
        output.print_json(describe_removal(report))
        return
    output.say(f"{output.counted(report.done, 'subscriber')} removed.")
    for each in report.problems:
        output.note(each)
