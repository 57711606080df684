"""`postroom subscriber export-data` and `erase`: the rights of one person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.running import with_settings
from postroom.services.resources.audience import describe_trace

if TYPE_CHECKING:
    from postroom.settings import Settings


@click.command("export-data")
@click.argument("email")
@output.json_option
@with_settings
def export_data(settings: Settings, email: str, as_json: bool) -> None:
    """Print everything that is kept about a person, as JSON for them to read or take along."""
    del as_json  # a person takes data along as JSON in any case
    output.print_json(describe_trace(call(settings, lambda s: s.tracing.trace(email))))


@click.command()
@click.argument("email")
@output.yes_option
@output.json_option
@with_settings
def erase(settings: Settings, email: str, yes: bool, as_json: bool) -> None:
    """Forget a person: off every list, and no longer named in the records of messages.

    The records stay, under a name that leads to nobody, so that sums still tell what was sent.
    """
    output.confirm(f"Forget {email} for good?", yes=yes)
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
    output.say(f"{done.address} is off {len(done.lists)} lists and named in no record of ours.")
    output.say(f"Records of emails that were changed: {done.emails}.")
    for ref in done.waiting:
        output.say(f"Message {ref} is not done: it sends nothing to them; erase again after it.")
