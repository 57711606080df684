"""`postroom trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.running import with_settings
from postroom.services.resources.audience import describe_trace

if TYPE_CHECKING:
    from postroom.settings import Settings


@click.command()
@click.argument("address")
@output.json_option
@with_settings
def trace(settings: Settings, address: str, as_json: bool) -> None:
    """What happened to one address.

    On which lists it is, which it has left, and for each message, newest first, what became of the
    email to it, with the mail server's reply.
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
        output.say("No message has an email to it.")
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
    console.print(output.table(("scheduled", "message", "outcome", "the server's reply"), emails))
