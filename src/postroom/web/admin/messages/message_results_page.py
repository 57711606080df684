"""The results of a message: its timeline, and a file with all numbers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from starlette.responses import Response

from postroom import clock
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message
from postroom.services.audience.files.cells import protected
from postroom.services.audience.results.engagement import Engagement, HourFigure
from postroom.services.audience.results.message_results import MessageResults
from postroom.services.audience.results.rates import RateComparison, hour_of
from postroom.services.audience.suppression.delivery_figures import NOT_DELIVERED
from postroom.services.audience.suppression.delivery_limits import percent
from postroom.services.resources.results import (
    MessageResultsResource,
    RatesResource,
    describe_results,
)
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

WIDTH: Final = 1000
HEIGHT: Final = 120
_MOST_BARS: Final = 72  # hours: three days
_MOST_PROVIDERS: Final = 12
_MOST_REPORTED: Final = 8  # links and providers, so that all fits on one sheet
_SHARE: Final = 0.4  # of an hour's place, for each of its two bars


class HourBar(msgspec.Struct, frozen=True):
    """An hour with its two bars, in SVG units."""

    at: datetime
    opened: int
    clicked: int
    x: float
    width: float
    opened_y: float
    clicked_y: float


class Timeline(msgspec.Struct, frozen=True):
    bars: list[HourBar]
    most_opened: int
    most_clicked: int


def timeline_of(engagement: Engagement | None) -> Timeline | None:
    """Return the bars of the first three days; None if there is nothing to show."""
    if engagement is None or not engagement.hours:
        return None
    figures = {hour_of(hour): each for hour, each in engagement.hours.items()}
    first = min(figures)
    last = min(max(figures), first + timedelta(hours=_MOST_BARS - 1))
    hours = [first]
    while hours[-1] < last or len(hours) < 2:
        hours.append(hours[-1] + timedelta(hours=1))
    shown = [figures.get(each, HourFigure()) for each in hours]
    highest = max(1, *(max(each.opened, each.clicked) for each in shown))
    place = WIDTH / len(hours)

    def y(count: int) -> float:
        return round(HEIGHT * (1 - count / highest), 1)

    bars = [
        HourBar(
            at,
            each.opened,
            each.clicked,
            round(place * number, 1),
            round(place * _SHARE, 1),
            y(each.opened),
            y(each.clicked),
        )
        for number, (at, each) in enumerate(zip(hours, shown, strict=True))
    ]
    most_opened = max(each.opened for each in shown)
    return Timeline(bars, most_opened, max(each.clicked for each in shown))


def hours_of(
    timeline: Timeline,
    results: MessageResults,
    comparison: RateComparison | None,
    sent_at: datetime,
) -> str:
    """Return the points that the script draws in the viewer's time zone: start of the hour, opened,
    clicked, and what the median of the last messages would be."""
    usual = comparison.opened_by_hour if comparison else ()
    first = sent_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)

    def expected(at: datetime) -> float | None:
        place = int((at - first).total_seconds()) // 3600
        if not 0 <= place < len(usual):
            return None
        return round(usual[place] * results.delivered / 100, 1)

    points = [
        [int(bar.at.timestamp()), bar.opened, bar.clicked, expected(bar.at)]
        for bar in timeline.bars
    ]
    shown = [list(column) for column in zip(*points, strict=True)]
    compared = comparison.messages if comparison and usual else 0
    return json.dumps({"columns": shown, "compared": compared})


async def results_of(visit: Visit, message: Message, counts: Counts) -> dict[str, Any]:
    """Return what the results on the page of a message and on its report show."""
    found = await visit.services.results.compared(
        message, accepted=counts.accepted, sees=visit.messages.sees
    )
    results, comparison = found.results, found.comparison
    timeline = timeline_of(results.engagement)
    sent_at = message.queued_at or message.due_at
    providers = sorted(results.delivery.providers.items(), key=lambda each: -each[1].accepted)
    return {
        "results": results,
        "comparison": comparison,
        "timeline": timeline,
        "hours": hours_of(timeline, results, comparison, sent_at) if timeline else "",
        "providers": providers[:_MOST_PROVIDERS],
        "link_clicks": sum(each.clicks for each in results.links),
        "percent": percent,
    }


async def report(visit: Visit) -> Response:
    """Show the results on one sheet, to be printed."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    counts = message.counts or await visit.services.outcomes.counts(message)
    return visit.render(
        "admin/messages/report.html",
        **await results_of(visit, message, counts),
        message=message,
        counts=counts,
        most_lines=_MOST_REPORTED,
        now=clock.now(),
    )


async def results_file(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    found = await visit.services.results.compared(message, sees=visit.messages.sees)
    results = describe_results(found)
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(("number", "of", "count"))
    writer.writerows(_rows(results))
    name = f"results-{message.ref}.csv"
    return Response(
        file.getvalue(),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _rows(results: MessageResultsResource) -> Iterator[tuple[str, str, int | float]]:
    """Yield every number; those that are not measured are left out."""
    for name in ("accepted", "delivered", "bounced", "complained", "unsubscribed"):
        yield name, "", getattr(results, name)
    for name, found in (("opened", results.opened), ("clicked", results.clicked)):
        if found is not None:
            for who, count in msgspec.structs.asdict(found).items():
                yield name, who, count
    if results.people is not None:
        for who, count in msgspec.structs.asdict(results.people).items():
            yield "people", who, count
    if results.click_to_open is not None:
        yield "click_to_open", "", results.click_to_open
    for kind in results.kinds:
        yield "bounced" if kind.kind in NOT_DELIVERED else "reported", kind.kind.value, kind.count
    for provider in results.providers:
        for name in ("accepted", "bounced", "rejected", "complained"):
            yield f"{name} by provider", protected(provider.provider), getattr(provider, name)
    yield from _rates("rate in percent", results.rates)
    if results.comparison is not None:
        yield from _rates("median rate in percent", results.comparison.rates)
    for link in results.links:
        yield "clicks", protected(link.url), link.clicks
        if link.people is not None:
            yield "people who clicked", protected(link.url), link.people
    for hour in results.hours:
        yield "opened by hour", hour.hour, hour.opened
        yield "clicked by hour", hour.hour, hour.clicked


def _rates(name: str, rates: RatesResource) -> Iterator[tuple[str, str, float]]:
    for rate, value in msgspec.structs.asdict(rates).items():
        if value is not None:
            yield name, rate, value


VIEWS = (
    View("/messages/{ref}/results.csv", results_file, right=ListRight.VIEW),
    View("/messages/{ref}/report", report, right=ListRight.VIEW, uses_rules=False),
)
