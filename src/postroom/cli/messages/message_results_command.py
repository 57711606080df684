"""`postroom message results`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.results import describe_results

if TYPE_CHECKING:
    from postroom.services.resources.results import MessageResultsResource
    from postroom.settings import Settings
    from postroom.wiring import Services

_MOST_LINKS = 20


@click.command()
@click.argument("ref")
@output.json_option
@with_settings
def results(settings: Settings, ref: str, as_json: bool) -> None:
    """Show what became of a message: bounces, unsubscribes, opens and clicks."""

    async def read(services: Services) -> MessageResultsResource:
        return describe_results(await services.results.of_message(await services.messages.get(ref)))

    found = call(settings, read)
    if as_json:
        output.print_json(found)
        return
    output.console().print(output.details(lines_of(found)))
    if found.links:
        rows = [(f"{each.clicks:,}", output.plain(each.url)) for each in found.links[:_MOST_LINKS]]
        output.console().print(output.table(("clicks", "link"), rows))


def lines_of(found: MessageResultsResource) -> dict[str, str]:
    """Return the numbers with their names, for people."""
    lines = {
        "accepted": f"{found.accepted:,}",
        "bounced": f"{found.bounced:,}",
        **{f"  {each.kind}": f"{each.count:,}" for each in found.kinds},
        "marked as spam": f"{found.complained:,}",
        "unsubscribed": f"{found.unsubscribed:,}",
    }
    if found.opened is None or found.clicked is None:
        return {**lines, "opened, clicked": "not measured"}
    opened, clicked = found.opened, found.clicked
    ratio = "-" if found.click_to_open is None else f"{found.click_to_open:.1f}"
    return {
        **lines,
        "opened": f"{opened.people:,}, and {opened.proxies:,} by proxies,"
        f" {opened.automated:,} automated",
        "clicked": f"{clicked.people:,}, and {clicked.automated:,} automated",
        "clicks per 100 opens": ratio,
    }
