"""The geometry of line charts that the server draws as SVG.

A chart has a view box of `WIDTH` by `HEIGHT`, which is stretched to its place on the page. Labels
are HTML next to it. `static/chart.js` shows the values of the point under the pointer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

import msgspec

from postroom.services.audience.growth.growth_history import Curve

WIDTH: Final = 1000
HEIGHT: Final = 200

_MOST_INTERVALS: Final = 4
_FLAT: Final = 0.5  # if all values are above this share of the largest, the axis begins higher


class Chart(msgspec.Struct, frozen=True):
    """A line, with the area below it if the axis begins at zero: otherwise an area would exaggerate
    the growth. `ticks` are the labels of the vertical axis, from the top; `grid` the heights of its
    lines. `data` is for the script: time, subscribers and confirmed ones of each point."""

    line: str
    area: str
    grid: list[float]
    ticks: list[int]
    dates: list[datetime]
    by_hour: bool
    data: str


def growth_chart(curve: Curve) -> Chart | None:
    """Return the chart of a curve; None if it has fewer than two points, or nobody on them."""
    points = curve.points
    if len(points) < 2 or not any(point.subscribers for point in points):
        return None
    first, last = points[0].at, points[-1].at
    span = max((last - first).total_seconds(), 1.0)
    ticks = axis_ticks([point.subscribers for point in points])
    low, high = ticks[-1], ticks[0]
    places = [
        (
            round(WIDTH * (point.at - first).total_seconds() / span, 1),
            round(HEIGHT * (high - point.subscribers) / (high - low), 1),
        )
        for point in points
    ]
    line = "M" + "L".join(f"{x:g} {y:g}" for x, y in places)
    data = [[int(each.at.timestamp()), each.subscribers, each.verified] for each in points]
    return Chart(
        line=line,
        area=f"{line}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z" if low == 0 else "",
        grid=[round(HEIGHT * (high - tick) / (high - low), 1) for tick in ticks],
        ticks=ticks,
        dates=[_shown_at(first, curve), _shown_at(first + (last - first) / 2, curve), last],
        by_hour=curve.by_hour,
        data=json.dumps({"by_hour": curve.by_hour, "low": low, "high": high, "points": data}),
    )


def _shown_at(moment: datetime, curve: Curve) -> datetime:
    """Return the moment that labels a point: that of a day is its end, which is the next day."""
    return moment if curve.by_hour else moment - timedelta(seconds=1)


def axis_ticks(values: Sequence[int]) -> list[int]:
    """Return round, evenly spaced numbers around all values, the largest first.

    The axis begins at zero unless all values are far from it: then the growth would not be seen.
    """
    high = max(values)
    low = min(values) if min(values) > _FLAT * high else 0
    for step in _round_numbers():
        first, last = low // step * step, max(-(-high // step), low // step + 1) * step
        if (last - first) // step <= _MOST_INTERVALS:
            return list(range(last, first - 1, -step))
    raise AssertionError("there are always larger steps")


def _round_numbers() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50 …"""
    for power in count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)
