"""`postroom results`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.results_over_time import describe_results_over_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from postroom.services.audience.results.rates import Rates
    from postroom.services.audience.results.results_over_time import ResultsOverTime
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.command()
@click.option("--list", "list_name", help="Only messages to this list.")
@output.json_option
@with_settings
def results(settings: Settings, list_name: str | None, as_json: bool) -> None:
    """Show the results of the last 50 messages."""

    async def read(services: Services) -> ResultsOverTime:
        chosen = (await services.lists.get(list_name)).name if list_name else None
        return await services.results_over_time.read(chosen)

    found = call(settings, read)
    if as_json:
        output.print_json(describe_results_over_time(found))
        return
    if not found.messages:
        output.note("No results yet: they appear when a message has been sent.")
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


def _shown(rates: Rates) -> tuple[str, ...]:
    values = (rates.bounced, rates.complained, rates.unsubscribed, rates.opened, rates.clicked)
    return tuple("-" if each is None else f"{each:.2f} %" for each in values)
