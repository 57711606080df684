"""`postroom message results` and `postroom message people`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import astuple

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.services.audience.suppression.delivery_figures import NOT_DELIVERED
from postroom.services.resources.results import (
    describe_person,
    describe_results,
    describe_segment_results,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from postroom.services.resources.results import (
        MessageResultsResource,
        PersonResource,
        ProviderResultsResource,
        SegmentsResultsResource,
    )
    from postroom.settings import Settings
    from postroom.wiring import Services

_MOST_LINKS = 20
_MOST_PROVIDERS = 12
_REPLIES = (BounceKind.AUTO_REPLY, BounceKind.CHALLENGE)
_AT_ONCE = 500


@click.command()
@click.argument("ref")
@click.option("--by-segment", is_flag=True, help="Show them for each segment of the list.")
@output.json_option
@with_settings
def results(settings: Settings, ref: str, by_segment: bool, as_json: bool) -> None:
    """Show the bounces, opens and clicks of a message.

    Also shows complaints, unsubscribes and links, and how each number is measured."""
    if by_segment:
        _show_segments(settings, ref, as_json)
        return

    async def read(services: Services) -> MessageResultsResource:
        message = await services.messages.get(ref)
        return describe_results(await services.results.compared(message))

    found = call(settings, read)
    if as_json:
        output.print_json(found)
        return
    output.console().print(output.details(lines_of(found)))
    if found.links:
        rows = [(f"{each.clicks:,}", output.plain(each.url)) for each in found.links[:_MOST_LINKS]]
        output.console().print(output.table(("#clicks", "link"), rows))
    if found.providers:
        output.console().print(providers_table(found.providers))


@click.command()
@click.argument("ref")
@output.json_option
@with_settings
def people(settings: Settings, ref: str, as_json: bool) -> None:
    """Show who opened a message and clicked its links.

    Only subscribers who agree to personal tracking are listed."""

    async def read(services: Services) -> list[PersonResource]:
        message = await services.messages.get(ref)
        found: list[PersonResource] = []
        after: str | None = None
        while True:
            page = await services.personal_hits.people(message, limit=_AT_ONCE, after=after)
            found += map(describe_person, page.people)
            if (after := page.next) is None:
                return found

    found = call(settings, read)
    if as_json:
        output.print_json({"items": found})
        return
    if not found:
        output.note("No opens or clicks by subscribers who agree to personal tracking.")
        return
    rows = [
        (
            output.plain(each.email),
            each.opened_at or "-",
            each.clicked_at or "-",
            f"{len(each.links)}",
        )
        for each in found
    ]
    output.console().print(output.table(("address", "opened", "clicked", "links"), rows))


def providers_table(found: Sequence[ProviderResultsResource]) -> Table:
    """Return the numbers of the largest providers."""
    largest = sorted(found, key=lambda each: -each.accepted)[:_MOST_PROVIDERS]
    rows = [
        (
            output.plain(each.provider),
            f"{each.accepted:,}",
            f"{each.bounced:,}",
            f"{each.rejected:,}",
            f"{each.complained:,}",
        )
        for each in largest
    ]
    heads = ("provider", "#accepted", "#bounced", "#rejected", "#spam")
    return output.table(heads, rows)


def _show_segments(settings: Settings, ref: str, as_json: bool) -> None:
    async def read(services: Services) -> SegmentsResultsResource:
        message = await services.messages.get(ref)
        segments = await services.segment_results.segments(message)
        found = await services.segment_results.read(message, segments)
        return describe_segment_results(message, found.figures)

    found = call(settings, read)
    if as_json:
        output.print_json(found)
        return
    if not found.segments:
        output.note("The list of this message has no segments.")
        return
    rows = [
        (each.segment, *("-" if n is None else f"{n:,}" for n in astuple(each)[1:]))
        for each in found.segments
    ]
    heads = ("segment", "#accepted", "#bounced", "#agreed", "#opened", "#clicked")
    output.console().print(output.table(heads, rows))


def lines_of(found: MessageResultsResource) -> dict[str, str]:
    """Return the numbers under readable names."""
    bounces = [each for each in found.kinds if each.kind in NOT_DELIVERED]
    replies = [each for each in found.kinds if each.kind in _REPLIES]
    lines = {
        "accepted": f"{found.accepted:,}",
        "delivered": f"{found.delivered:,}{_rate(found, 'delivered')}",
        "bounced": f"{found.bounced:,}{_rate(found, 'bounced')}",
        **{f"  {each.kind}": f"{each.count:,}" for each in bounces},
        "marked as spam": f"{found.complained:,}{_rate(found, 'complained')}",
        **{each.kind.replace("_", " "): f"{each.count:,}" for each in replies},
        "unsubscribed": f"{found.unsubscribed:,}{_rate(found, 'unsubscribed')}",
    }
    if found.opened is None or found.clicked is None:
        return {**lines, "opened, clicked": "not measured"}
    opened, clicked = found.opened, found.clicked
    ratio = "-" if found.click_to_open is None else f"{found.click_to_open:.1f}%"
    people = {}
    if (who := found.people) is not None:
        people["people"] = (
            f"{who.opened:,} opened and {who.clicked:,} clicked, of {who.agreed:,} who agreed"
        )
    return {
        **lines,
        "opened": f"{opened.people:,}{_rate(found, 'opened')}, and {opened.proxies:,} by proxies,"
        f" {opened.automated:,} automated",
        "clicked": f"{clicked.people:,}{_rate(found, 'clicked')}, and {clicked.automated:,}"
        " automated",
        **people,
        "click-to-open rate": f"{ratio}{_median(found, 'click_to_open')}",
    }


def _rate(found: MessageResultsResource, name: str) -> str:
    """Return for example " (1.2%; median of the last 10: 1.4%)"."""
    rate: float | None = getattr(found.rates, name)
    if rate is None:
        return ""
    compared = _compared(found, name)
    return f" ({rate:.2f}%{compared and f'; {compared}%'})"


def _median(found: MessageResultsResource, name: str) -> str:
    compared = _compared(found, name)
    return compared and f" ({compared}%)"


def _compared(found: MessageResultsResource, name: str) -> str:
    if found.comparison is None:
        return ""
    value: float | None = getattr(found.comparison.rates, name)
    return "" if value is None else f"median of the last {found.comparison.messages}: {value:.2f}"
