"""Results over time: growth, the rates of the last messages, best hours and providers."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Final

import msgspec
from starlette.responses import Response

from postroom import clock
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.services.audience.files.cells import protected
from postroom.services.audience.growth.list_movements import Movement
from postroom.services.audience.results.message_results import SentMessage
from postroom.services.audience.results.results_over_time import ResultsOverTime
from postroom.services.audience.suppression.delivery_limits import percent
from postroom.services.resources.results_over_time import describe_results_over_time
from postroom.web.admin.audience.growth import AudienceGrowth, audience, audience_of
from postroom.web.rendering.times import on_day
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_MOST_CHOICES: Final = 100  # lists in the filter
_MOST_PROVIDERS: Final = 12
_LISTS_LOOKED_AT: Final = 20
_LEAST_DRAWN: Final = 2  # messages of a chart
_UNTIL_DRAWN: Final = timedelta(days=1)
_COUNTS: Final = ("accepted", "delivered", "bounced", "complained", "unsubscribed")
BAR_WIDTH: Final = 1000
BAR_HEIGHT: Final = 120
_BAR_SHARE: Final = 0.7  # of a week's place
_LEAST_WEEKS: Final = 13  # so that the bars of a few weeks are not wide
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class WeekCell(msgspec.Struct, frozen=True):
    """An hour of the week in UTC, in SVG units, and how strong its colour is."""

    place: int
    x: int
    y: int
    opened: int
    strength: float


class WeekBar(msgspec.Struct, frozen=True):
    """How many joined and left in a week, in SVG units; `y` is the top of the upper bar, and
    `depth` the height of the lower one."""

    begins: str
    joined: int
    left: int
    x: float
    y: float
    depth: float


class Movements(msgspec.Struct, frozen=True):
    """The bars of weeks around a line at `axis`."""

    bars: list[WeekBar]
    axis: float
    width: float


async def results(visit: Visit) -> Response:
    name = await _chosen(visit)
    found, grown, names = await asyncio.gather(
        _read(visit, name), _audience(visit, name), visit.lists.names(limit=_MOST_CHOICES + 1)
    )
    return visit.render(
        "admin/operations/results.html",
        found=found,
        audience=grown,
        list_names=names if len(names) <= _MOST_CHOICES else [],
        of_list=name or "",
        rates=chart_of(found, clock.now()),
        is_too_early=any(_is_too_early(each, clock.now()) for each in found.messages),
        week=week_of(found),
        movements=movements_of(found.movements),
        weekdays=WEEKDAYS,
        providers=list(found.providers.items())[:_MOST_PROVIDERS],
        percent=percent,
    )


async def results_file(visit: Visit) -> Response:
    name = await _chosen(visit)
    described = describe_results_over_time(await _read(visit, name))
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    rates = described.medians.__struct_fields__
    heads = [f"{each}_percent" for each in rates]
    writer.writerow(("ref", "subject", "list", "sent_at", *_COUNTS, "opened", "clicked", *heads))
    for each in described.messages:
        counts = [getattr(each, count) for count in (*_COUNTS, "opened", "clicked")]
        shares = [getattr(each.rates, rate) for rate in rates]
        begin = (each.ref, protected(each.subject), each.list, each.sent_at)
        writer.writerow((*begin, *("" if cell is None else cell for cell in (*counts, *shares))))
    return Response(
        file.getvalue(),
        media_type="text/csv",
        headers={"Content-Disposition": 'attachment; filename="results.csv"'},
    )


async def _chosen(visit: Visit) -> ListName | None:
    """Return the list that was asked for. `NoSuch`."""
    wanted = visit.parameter("list").strip()
    return (await visit.services.lists.get(wanted)).name if wanted else None


async def _read(visit: Visit, name: ListName | None) -> ResultsOverTime:
    only = await visit.lists.names() if visit.access.is_limited else None
    return await visit.services.results_over_time.read(name, sees=visit.messages.sees, only=only)


async def _audience(visit: Visit, name: ListName | None) -> AudienceGrowth:
    if name is not None:
        return await audience_of(visit, [name])
    if visit.access.is_limited:
        return await audience_of(visit, await visit.lists.names())
    lists = (await visit.lists.slice(limit=_LISTS_LOOKED_AT)).lists
    return await audience(visit, await visit.services.sizes.total([each.name for each in lists]))


def _is_too_early(result: SentMessage, now: datetime) -> bool:
    """Return whether most opens are still to come, so that a chart would show a drop."""
    return result.sent_at > now - _UNTIL_DRAWN


def chart_of(found: ResultsOverTime, now: datetime) -> str:
    """Return the columns of the charts, the oldest message first; "" with too few messages."""
    drawn = [each for each in found.messages if not _is_too_early(each, now)]
    if len(drawn) < _LEAST_DRAWN:
        return ""
    oldest_first = sorted(drawn, key=lambda each: each.sent_at)
    rates = [each.results.rates for each in oldest_first]

    def column(name: str) -> list[float | None]:
        values: list[float | None] = [getattr(each, name) for each in rates]
        return [None if each is None else round(each, 3) for each in values]

    names = ("opened", "clicked", "bounced", "unsubscribed", "complained")
    return json.dumps(
        {
            "times": [int(each.sent_at.timestamp()) for each in oldest_first],
            "subjects": [each.message.subject for each in oldest_first],
            **{name: column(name) for name in names},
        }
    )


def week_of(found: ResultsOverTime) -> list[WeekCell]:
    """Return the hours of the week, from Monday at midnight in UTC; none if nothing was opened."""
    highest = max(found.opened_by_hour, default=0)
    return [
        WeekCell(place, place % 24, place // 24, opened, round(opened / highest, 3))
        for place, opened in enumerate(found.opened_by_hour)
    ]


def movements_of(days: Mapping[str, Movement]) -> Movements | None:
    """Return how many joined and left by week, from Monday; None if nobody did."""
    weeks: dict[date, Movement] = {}
    for day, movement in days.items():
        at = date.fromisoformat(day)
        monday = at - timedelta(days=at.weekday())
        weeks[monday] = weeks.get(monday, Movement()) + movement
    up = max((each.joined for each in weeks.values()), default=0)
    down = max((each.left for each in weeks.values()), default=0)
    if not up + down:
        return None
    first, last = min(weeks), max(weeks)
    mondays = [first + timedelta(days=day) for day in range(0, (last - first).days + 1, 7)]
    scale, place = BAR_HEIGHT / (up + down), BAR_WIDTH / max(len(mondays), _LEAST_WEEKS)
    shown = [(monday, weeks.get(monday, Movement())) for monday in mondays]
    bars = [
        WeekBar(
            on_day(monday),
            week.joined,
            week.left,
            round(place * number, 1),
            round(scale * (up - week.joined), 1),
            round(scale * week.left, 1),
        )
        for number, (monday, week) in enumerate(shown)
    ]
    return Movements(bars, round(scale * up, 1), round(place * _BAR_SHARE, 1))


VIEWS = (
    View("/results", results, right=ListRight.VIEW),
    View("/results.csv", results_file, right=ListRight.VIEW),
)
