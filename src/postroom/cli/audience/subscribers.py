"""`postroom subscriber` and `postroom trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.audience.csv_files import export_list, import_file
from postroom.cli.audience.listmonk import import_listmonk
from postroom.cli.support import output
from postroom.cli.support.running import call, read_pairs, with_settings
from postroom.domain.audience.consent import BY_COMMAND, ConsentAction, details_of
from postroom.services.resources.audience import describe_subscriber
from postroom.services.resources.personal_data import describe_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from postroom.domain.audience.lists import Subscriber
    from postroom.services.audience.consent.consent_ledger import ConsentHistory
    from postroom.services.audience.suppression.bounce_history import RecordedBounce
    from postroom.settings import Settings
    from postroom.wiring import Services

_SEARCH_SECONDS = 60.0  # a search through many millions continues with --after

_field_option = click.option(
    "--field",
    "fields",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of a field. Repeatable; an empty value removes it.",
)


@click.group("subscriber")
def subscribers() -> None:
    """Manage the subscribers of a list; import and export."""


subscribers.add_command(import_file)
subscribers.add_command(import_listmonk)
subscribers.add_command(export_list)


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
    """Add an address to a list. Only verified subscribers get messages (see `ask`)."""
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
    from postroom.services.audience.signup.subscriptions import SubscriberSlice
    from postroom.services.audience.subscriber_search import FoundSubscribers, SubscriberState

    async def find(services: Services) -> SubscriberSlice | FoundSubscribers:
        if not contains:
            return await services.subscriptions.page(
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
        output.note("There are none.")
        return
    rows = [
        (output.plain(each.address), _state_of(each), output.when(each.created_at))
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
@click.option("--block", "blocked", metavar="REASON", help="Send them nothing, for this reason.")
@click.option("--unblock", is_flag=True, help="Send to them again.")
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
    fields: tuple[str, ...],
    as_json: bool,
) -> None:
    """Verify, unverify, block or unblock a subscriber, or change their fields."""
    if blocked is not None and unblock:
        raise click.UsageError("give --block or --unblock, not both")
    if blocked is not None and not blocked.strip():
        raise click.UsageError("--block needs a reason")
    if verified is None and blocked is None and not unblock and not fields:
        raise click.UsageError(
            "nothing to change: give --verify, --unverify, --block REASON, --unblock or --field"
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
                "state": _state_of(subscriber),
                "since": output.when(subscriber.created_at),
                "verified": output.when(subscriber.verified_at),
                **{
                    name: output.plain(_shown_value(value))
                    for name, value in subscriber.attributes.items()
                },
                "GUID": subscriber.guid,
            }
        )
    )


def _shown_value(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _state_of(subscriber: Subscriber) -> Text:
    from rich.text import Text

    if subscriber.blocked:
        return Text("blocked: ", "red") + output.plain(subscriber.blocked)
    return Text("verified", "green") if subscriber.verified else Text("not verified", "yellow")


@click.command()
@click.argument("address")
@output.json_option
@with_settings
def trace(settings: Settings, address: str, as_json: bool) -> None:
    """Show everything that happened to one address.

    Its lists, the lists it left, its entries in the consent ledger, and for each message, newest
    first, the outcome of the email to it with the mail server's reply.
    """
    found = call(settings, lambda s: s.tracing.trace(address))
    if as_json:
        output.print_json(describe_trace(found))
        return
    console = output.console()
    if found.subscriptions:
        lists = [
            (s.list_name, _state_of(s), output.when(s.created_at)) for s in found.subscriptions
        ]
        console.print(output.table(("list", "state", "since"), lists))
    else:
        output.say(f"{found.address} is on no list.")
    for former in found.former:
        output.say(f"Formerly {former.key} on {former.list_name}.")
    for moved in found.moved:
        output.say(f"Changed to {moved.address} on {moved.list_name}.")
    for each in found.suppressions:
        output.say(f"Suppressed on {each.list_name or 'every list'}: {each.reason}.")
    for left in found.departures:
        output.say(f"Unsubscribed from {left.list_name} on {output.when(left.left_at)}.")
    console.print()
    if found.consent:
        entries = [entry for each in found.consent for entry in _consent(each)]
        console.print(output.table(("list", "time", "consent", "origin"), entries))
        console.print()
    if not found.emails:
        output.say("No emails to this address.")
        return
    emails = [
        (
            output.when(message.scheduled_at),
            output.plain(message.subject),
            output.state(email.outcome.value),
            output.plain(email.reply),
            output.plain(_bounces(found.bounces.get(message.ref, ()))),
        )
        for message, email in found.emails
    ]
    heads = ("scheduled", "message", "outcome", "mail server's reply")
    if found.bounces:
        console.print(output.table((*heads, "bounces"), emails))
    else:
        console.print(output.table(heads, [each[:-1] for each in emails]))


def _consent(history: ConsentHistory) -> Iterator[tuple[str, str, str, Text]]:
    name = history.list_name
    if (first := history.imported) is not None:
        yield name, output.when(first.at), ConsentAction.IMPORTED.value, output.plain(first.origin)
    for each in history.entries:
        yield name, output.when(each.at), each.act.value, output.plain(details_of(each).origin)


def _bounces(bounces: Iterable[RecordedBounce]) -> str:
    return "; ".join(f"{each.kind}: {each.diagnostic}" for each in bounces)


@subscribers.command("export-data")
@click.argument("email")
@output.json_option
@with_settings
def export_data(settings: Settings, email: str, as_json: bool) -> None:
    """Print everything that is stored about an address, as JSON."""
    del as_json  # always JSON
    output.print_json(describe_trace(call(settings, lambda s: s.tracing.trace(email))))


@subscribers.command()
@click.argument("email")
@output.yes_option
@output.json_option
@with_settings
def erase(settings: Settings, email: str, yes: bool, as_json: bool) -> None:
    """Erase an address from all lists, the consent ledger and the records of messages.

    The entries and records stay without the person, so that the ledger can be verified and totals
    stay correct. An interrupted erasure is finished by the scheduler.
    """
    output.confirm(f"Erase {email} permanently?", yes=yes)
    done = call(settings, lambda s: s.personal_data.erase(email))
    if as_json:
        output.print_json(
            {
                "email": done.address,
                "lists": done.lists,
                "emails": done.emails,
                "waiting": done.waiting,
            }
        )
        return
    output.say(f"{done.address} erased from {output.counted(len(done.lists), 'list')}.")
    output.say(f"Email records changed: {done.emails:,}.")
    for ref in done.waiting:
        output.say(
            f"Message {ref} is unfinished and skips this address. Its records are erased later."
        )
