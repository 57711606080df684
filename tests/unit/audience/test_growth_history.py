"""The arithmetic of growth: totals by day from the dates of subscribers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, date, datetime, timedelta

from postroom.services.audience.growth.growth_history import (
    Curve,
    GrowthPoint,
    Joined,
    daily_totals,
    summed,
)

TODAY = date(2026, 11, 16)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


async def parts(*joined: Joined) -> AsyncIterator[Iterable[Joined]]:
    for each in joined:
        yield [each]


def joined(days_ago: int, verified_ago: int | None = None) -> Joined:
    verified_at = None if verified_ago is None else NOON - timedelta(days=verified_ago)
    return Joined(NOON - timedelta(days=days_ago), verified_at)


async def test_each_day_has_everyone_who_had_joined_by_then() -> None:
    totals = await daily_totals(parts(joined(4, 2), joined(2), joined(2, 1), joined(0)), TODAY)
    assert totals == {
        date(2026, 11, 12): (1, 0),
        date(2026, 11, 13): (1, 0),
        date(2026, 11, 14): (3, 1),
        date(2026, 11, 15): (3, 2),
    }


async def test_a_list_that_began_today_has_no_earlier_days() -> None:
    assert await daily_totals(parts(joined(0, 0)), TODAY) == {}
    assert await daily_totals(parts(), TODAY) == {}


async def test_everyone_who_joined_over_a_year_ago_counts_from_the_first_day_on() -> None:
    totals = await daily_totals(parts(joined(2000, 1999), joined(366), joined(364)), TODAY)
    days = sorted(totals)
    assert (len(days), days[0]) == (365, TODAY - timedelta(days=365))
    assert [totals[day] for day in days[:2]] == [(2, 1), (3, 1)]
    assert totals[days[-1]] == (3, 1)


def test_lists_are_summed_up_by_day() -> None:
    first, second = TODAY - timedelta(days=2), TODAY - timedelta(days=1)
    assert summed({first: (5, 4), second: (6, 4)}, {second: (10, 1)}) == {
        first: (5, 4),
        second: (16, 5),
    }


def test_the_numbers_before_a_moment_are_those_of_the_last_point_until_then() -> None:
    points = [GrowthPoint(NOON + timedelta(days=day), day, 0) for day in range(3)]
    curve = Curve(points)
    assert curve.before(NOON - timedelta(seconds=1)) is None
    assert curve.before(NOON + timedelta(days=1)) == points[1]
    assert curve.before(NOON + timedelta(days=1, hours=23)) == points[1]
