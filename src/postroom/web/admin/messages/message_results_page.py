"""The results of a message: its timeline, and a file with all numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from starlette.responses import Response

from postroom.domain.audience.list_rights import ListRight
from postroom.services.audience.files.cells import protected
from postroom.services.audience.results.engagement import Engagement, HourFigure
from postroom.services.resources.results import MessageResultsResource, describe_results
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

WIDTH: Final = 1000
HEIGHT: Final = 120
_MOST_BARS: Final = 72  # hours: three days
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
    figures = {_moment(hour): each for hour, each in engagement.hours.items()}
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


async def results_file(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    results = describe_results(await visit.services.results.of_message(message))
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
    for name in ("accepted", "bounced", "complained", "unsubscribed"):
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
        yield "bounced", kind.kind.value, kind.count
    for link in results.links:
        yield "clicks", protected(link.url), link.clicks
        if link.people is not None:
            yield "people who clicked", protected(link.url), link.people
    for hour in results.hours:
        yield "opened by hour", hour.hour, hour.opened
        yield "clicked by hour", hour.hour, hour.clicked


def _moment(hour: str) -> datetime:
    return datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC)


VIEWS = (View("/messages/{ref}/results.csv", results_file, right=ListRight.VIEW),)
