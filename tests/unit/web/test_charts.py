"""The geometry of the growth chart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from postroom.services.audience.growth.growth_history import Curve, GrowthPoint
from postroom.web.rendering.charts import HEIGHT, WIDTH, axis_ticks, growth_chart

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0, 0], [1, 0]),
        ([0, 1], [1, 0]),
        ([0, 3], [3, 2, 1, 0]),
        ([0, 7], [8, 6, 4, 2, 0]),
        ([3, 100], [100, 50, 0]),
        ([4170, 6948], [7000, 6000, 5000, 4000]),
        ([12_000, 12_480], [12_600, 12_400, 12_200, 12_000]),
        ([1_000_000, 1_000_000], [1_000_001, 1_000_000]),
    ],
)
def test_an_axis_has_a_few_round_numbers_around_all_values(
    values: list[int], ticks: list[int]
) -> None:
    assert axis_ticks(values) == ticks


def test_any_numbers_are_inside_the_axis() -> None:
    for low in (0, 1, 9, 99, 12_345, 10**9):
        for more in (0, 1, 2, 7, 19, 240, 99_999):
            ticks = axis_ticks([low, low + more])
            assert ticks[-1] <= low
            assert low + more <= ticks[0]
            assert 2 <= len(ticks) <= 5
            assert len({one - other for one, other in pairwise(ticks)}) == 1


def test_a_line_goes_from_edge_to_edge() -> None:
    points = [GrowthPoint(NOON + timedelta(hours=n), n * 10, n) for n in range(3)]
    chart = growth_chart(Curve(points, by_hour=True))
    assert chart is not None
    assert chart.line == f"M0 {HEIGHT}L500 100L{WIDTH} 0"
    assert chart.grid[0] == 0
    assert chart.grid[-1] == HEIGHT
    assert chart.dates == [point.at for point in points]


@pytest.mark.parametrize(("lowest", "is_filled"), [(10, True), (90, False)])
def test_the_area_below_the_line_is_filled_only_from_zero(*, lowest: int, is_filled: bool) -> None:
    points = [GrowthPoint(NOON + timedelta(hours=n), lowest + n, 0) for n in (0, 20)]
    chart = growth_chart(Curve(points))
    assert chart is not None
    assert (chart.ticks[-1] == 0) is is_filled
    assert bool(chart.area) is is_filled


def test_one_point_is_not_a_line_and_neither_is_an_empty_list() -> None:
    assert growth_chart(Curve([GrowthPoint(NOON, 1, 1)])) is None
    nobody = [GrowthPoint(NOON + timedelta(hours=n), 0, 0) for n in range(3)]
    assert growth_chart(Curve(nobody)) is None
