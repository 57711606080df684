"""The growth of one list, or of all lists together, for Home and the page of a list."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from postroom import clock
from postroom.domain.audience.lists import ListName
from postroom.services.audience.growth_history import GrowthPoint
from postroom.services.audience.list_sizes import CurrentSize
from postroom.web.rendering.charts import Chart, growth_chart
from postroom.web.requests.visit import Visit


class Audience(msgspec.Struct, frozen=True):
    """The subscribers of a list or of all lists. `change` is since the first of the month."""

    size: CurrentSize
    change: int
    chart: Chart | None


async def audience(visit: Visit, size: CurrentSize, list_name: ListName | None = None) -> Audience:
    """Return the size with its change and its chart: of a list, or of all lists."""
    now = clock.now()
    point = GrowthPoint(now, size.subscribers, size.verified)
    curve = await visit.services.growth.curve(point, list_name)
    before = curve.before(datetime(now.year, now.month, 1, tzinfo=UTC))
    change = size.subscribers - (before.subscribers if before else 0)
    return Audience(size, change, growth_chart(curve))
