"""`postroom trace`, `subscriber export-data` and `erase`: everything about one address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.audience import describe_trace

if TYPE_CHECKING:
    from postroom.settings import Settings


@click.command()
@click.argument("address")
@output.json_option
@with_settings
def trace(settings: Settings, address: str, as_json: bool) -> None:
    """Show everything that happened to one address.

    Its lists, the lists it left, and for each message, newest first, the outcome of the email to
    it with the mail server's reply.
    """
    from postroom.cli.audience.subscribers import state_of

    found = call(settings, lambda s: s.tracing.trace(address))
    if as_json:
        output.print_json(describe_trace(found))
        return
    console = output.console()
    if found.subscriptions:
        lists = [(s.list_name, state_of(s), output.when(s.created_at)) for s in found.subscriptions]
        console.print(output.table(("list", "state", "since"), lists))
    else:
        output.say(f"{found.address} is on no list.")
    for left in found.departures:
        output.say(f"Unsubscribed from {left.list_name} on {output.when(left.left_at)}.")
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
        )
        for message, email in found.emails
    ]
    console.print(output.table(("scheduled", "message", "outcome", "mail server's reply"), emails))


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
    """Erase an address from all lists and from the records of messages.

    The records stay under a pseudonym, so that the sums are still right.
    """
    output.confirm(f"Erase {email} for good?", yes=yes)
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
        output.say(f"Message {ref} is unfinished and skips this address. Erase again later.")
