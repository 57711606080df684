"""`postroom subscriber remove-inactive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.inactivity import inactive_days_option
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.audience import describe_removal

if TYPE_CHECKING:
    from postroom.services.audience.bulk_changes import BulkReport
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.command("remove-inactive")
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
