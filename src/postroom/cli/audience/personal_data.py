"""What is stored about a person: `postroom trace`, `subscriber export-data` and `erase`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.audience.consent import ConsentAction, details_of
from postroom.services.resources.personal_data import describe_erasure, describe_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from postroom.domain.audience.lists.lists import Subscriber
    from postroom.services.audience.consent.consent_ledger import ConsentHistory
    from postroom.services.audience.suppression.bounce_history import RecordedBounce
    from postroom.settings import Settings


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
            (s.list_name, shown_state(s), output.when(s.created_at)) for s in found.subscriptions
        ]
        console.print(output.table(("list", "state", "since"), lists))
    else:
        output.say(f"{found.address} is not on any list.")
    for former in found.former:
        output.say(f"Formerly {former.key} on {former.list_name}.")
    for moved in found.moved:
        output.say(f"Changed to {moved.address} on {moved.list_name}.")
    for each in found.suppressions:
        output.say(f"Suppressed on {each.list_name or 'every list'}: {each.reason}.")
    for left in found.unsubscribes:
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


@click.command("export-data")
@click.argument("email")
@output.json_option
@with_settings
def export_data(settings: Settings, email: str, as_json: bool) -> None:
    """Print everything that is stored about an address, as JSON."""
    del as_json  # always JSON
    output.print_json(describe_trace(call(settings, lambda s: s.tracing.trace(email))))


@click.command()
@click.argument("email")
@output.yes_option
@output.json_option
@with_settings
def erase(settings: Settings, email: str, yes: bool, as_json: bool) -> None:
    """Erase everything that is stored about an address.

    It disappears from all lists, the consent ledger and the records of messages.

    The entries and records are kept without personal data, so that the ledger can be verified and
    totals stay correct. An interrupted erasure is finished by the scheduler.
    """
    output.confirm(f"Erase {email} permanently?", yes=yes)
    done = call(settings, lambda s: s.personal_data.erase(email))
    if as_json:
        output.print_json(describe_erasure(done))
        return
    output.say(f"{done.address} erased from {output.counted(len(done.lists), 'list')}.")
    output.say(f"Email records changed: {done.emails:,}.")
    for ref in done.waiting:
        output.say(
            f"Message {ref} is unfinished and skips this address. Its records are erased later."
        )


def shown_state(subscriber: Subscriber) -> Text:
    from rich.text import Text

    if subscriber.blocked:
        return Text("blocked: ", "red") + output.plain(subscriber.blocked)
    return Text("verified", "green") if subscriber.verified else Text("not verified", "yellow")
