"""`postroom results`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.messages.message_results_command import providers_table
from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.results_over_time import describe_results_over_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from postroom.services.audience.growth.list_movements import Movement
    from postroom.services.audience.results.rates import Rates
    from postroom.services.audience.results.results_over_time import ResultsOverTime
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.command()
@click.option("--list", "list_name", help="Only messages to this list.")
@output.json_option
@with_settings
def results(settings: Settings, list_name: str | None, as_json: bool) -> None:
    """Show the results of the last 50 messages.

    Also shows how many joined and left in the last 90 days, and what each provider reported."""

    async def read(services: Services) -> ResultsOverTime:
        chosen = (await services.lists.get(list_name)).name if list_name else None
        return await services.results_over_time.read(chosen)

    found = call(settings, read)
    described = describe_results_over_time(found)
    if as_json:
        output.print_json(described)
        return
    output.say(_moved(found.moved))
    if not found.messages:
        output.note("No results yet: they appear after a message has been sent.")
        return
    rows: list[tuple[RenderableType, ...]] = [
        (
            str(each.message.ref),
            output.plain(each.message.subject),
            output.when(each.sent_at),
            f"{each.results.accepted:,}",
            *_shown(each.results.rates),
        )
        for each in found.messages
    ]
    if len(rows) > 1:
        rows.append(("median", "", "", "", *_shown(found.medians)))
    heads = ("message", "subject", "sent", "#accepted")
    rates = ("#bounced", "#spam", "#unsubscribed", "#opened", "#clicked")
    output.console().print(output.table((*heads, *rates), rows))
    if described.providers:
        output.console().print(providers_table(described.providers))


def _moved(moved: Movement) -> str:
    return (
        f"In the last 90 days, {moved.joined:,} joined: {moved.form:,} with a form,"
        f" {moved.imported:,} imported, {moved.api:,} through the API, {moved.team:,} by hand."
        f" {moved.left:,} left: {moved.unsubscribed:,} unsubscribed, {moved.removed:,} removed."
    )


def _shown(rates: Rates) -> tuple[str, ...]:
    values = (rates.bounced, rates.complained, rates.unsubscribed, rates.opened, rates.clicked)
    return tuple("-" if each is None else f"{each:.2f}%" for each in values)
