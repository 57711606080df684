"""The growth of one list, of some or of all lists together, for Home and the page of a list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName
from postroom.services.audience.growth.growth_history import GrowthPoint
from postroom.services.audience.growth.list_sizes import CurrentSize
from postroom.web.rendering.charts import Chart, growth_chart
from postroom.web.requests.visit import Visit


class AudienceGrowth(msgspec.Struct, frozen=True):
    """The subscribers of a list or of all lists. `change` is since the first of the month."""

    size: CurrentSize
    change: int
    chart: Chart | None


async def audience_of(visit: Visit, names: Sequence[ListName]) -> AudienceGrowth:
    """Return the sizes of some lists together; the chart is that of a single one."""
    sizes = await visit.services.sizes.of(names)
    if len(sizes) == 1:
        [(name, size)] = sizes.items()
        return await audience(visit, size, name)
    each = [await audience(visit, size, name) for name, size in sizes.items()]
    total = CurrentSize(
        sum(size.subscribers for size in sizes.values()),
        sum(size.verified for size in sizes.values()),
        sum(size.recipients for size in sizes.values()),
    )
    return AudienceGrowth(total, sum(one.change for one in each), None)


async def audience(
    visit: Visit, size: CurrentSize, list_name: ListName | None = None
) -> AudienceGrowth:
    """Return the size with its change and its chart: of a list, or of all lists."""
    now = clock.now()
    point = GrowthPoint(now, size.subscribers, size.verified)
    curve = await visit.services.growth.curve(point, list_name)
    before = curve.before(datetime(now.year, now.month, 1, tzinfo=UTC))
    change = size.subscribers - (before.subscribers if before else 0)
    return AudienceGrowth(size, change, growth_chart(curve))
