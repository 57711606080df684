"""The history of the numbers of subscribers: by day, and by hour for the last days.

| table    | partition   | row                  | holds                                          |
|----------|-------------|----------------------|------------------------------------------------|
| `growth` | `list:NAME` | `2026-11-16`         | Subscribers, Verified at the end of a day      |
| `growth` | `list:NAME` | `hour:2026-11-16T09` | the same at the end of an hour; for three days |
| `growth` | `all`       | the same rows        | all lists together                             |
| `growth` | `history`   | `built`              | At: when the days before that were derived     |

Every row holds totals, never changes: a row that is written again after a crash is right. The
current day and hour are overwritten until they end.

Days before the first count are derived from the dates of the subscribers, once for each store.
Those who left before are missing from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.services import entities
from postroom.services.row_ranges import remove_rows
from postroom.storage import Entity, KeyRange, Store, Upsert

TABLE: Final = "growth"
EVERY: Final = "all"
BY_HOUR: Final = timedelta(days=3)
"""As long as a history is shorter, it is shown by hour."""

_DERIVED_DAYS: Final = 365
_HISTORY, _BUILT = "history", "built"
_HOUR_PREFIX: Final = "hour:"
_HOURS: Final = KeyRange.prefix(_HOUR_PREFIX)
_DAYS_END: Final = _HOUR_PREFIX  # days begin with a digit
_BATCH: Final = 100  # the operations of one batch of the store
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)


class GrowthPoint(msgspec.Struct, frozen=True):
    """The numbers of subscribers at a moment."""

    at: datetime
    subscribers: int
    verified: int


class Curve(msgspec.Struct, frozen=True):
    """The growth of a list or of all lists, the oldest point first."""

    points: list[GrowthPoint]
    by_hour: bool = False

    def before(self, moment: datetime) -> GrowthPoint | None:
        """Return the last point that is not after a moment."""
        return next((point for point in reversed(self.points) if point.at <= moment), None)


class Joined(msgspec.Struct, frozen=True):
    """When a subscriber was added and confirmed."""

    at: datetime
    verified_at: datetime | None


class GrowthHistory:
    def __init__(self, store: Store) -> None:
        self._rows = store.table(TABLE)
        self._noted: dict[str, tuple[str, int, int]] = {}  # by partition: hour and numbers
        self._is_built = False

    # -- reading -----------------------------------------------------------------------------

    async def curve(
        self, list_name: str | None = None, *, now: GrowthPoint, days: int = 90
    ) -> Curve:
        """Return the growth of a list, or of all lists, up to the present numbers.

        While it is younger than `BY_HOUR`, it has a point for each hour and begins at zero.
        """
        partition = EVERY if list_name is None else list_partition(list_name)
        first = KeyRange(start=day_key(now.at - timedelta(days=days)))
        stored = [row async for row in self._rows.scan(KeyRange.only(partition), first)]
        daily = [_point(row, _day_end(row.row)) for row in stored if row.row < _DAYS_END]
        hourly = [_point(row, _hour_end(row.row)) for row in stored if row.row >= _DAYS_END]
        if hourly and (not daily or daily[0].at > now.at - BY_HOUR):
            start = GrowthPoint(hourly[0].at - _HOUR, 0, 0)
            return Curve(_up_to(now, [start, *hourly]), by_hour=True)
        return Curve(_up_to(now, daily))

    # -- writing -----------------------------------------------------------------------------

    async def note(self, partition: str, subscribers: int, verified: int) -> None:
        """Record the present numbers, unless this hour has them already."""
        now = clock.now()
        state = (hour_key(now), subscribers, verified)
        before = self._noted.get(partition)
        if before == state:
            return
        figures = {"Subscribers": subscribers, "Verified": verified}
        rows = (day_key(now), hour_key(now))
        await self._rows.apply([Upsert(Entity(partition, row, figures)) for row in rows])
        self._noted[partition] = state
        if before is None or before[0] != state[0]:
            await self._forget_hours(partition, now - BY_HOUR - _HOUR)

    async def _forget_hours(self, partition: str, before: datetime) -> None:
        expired = KeyRange(_HOURS.start, hour_key(before))
        found = await self._rows.query(KeyRange.only(partition), expired)
        await remove_rows(self._rows, partition, [row.row for row in found.entities])

    # -- deriving the past -------------------------------------------------------------------

    async def is_built(self) -> bool:
        """Return whether the days before the first count have been derived."""
        self._is_built = self._is_built or await self._rows.get(_HISTORY, _BUILT) is not None
        return self._is_built

    async def finish_building(self) -> None:
        await self._rows.upsert(Entity(_HISTORY, _BUILT, {"At": clock.now()}))
        self._is_built = True

    async def fill(self, partition: str, days: Mapping[date, tuple[int, int]]) -> None:
        """Write these days, apart from those at or after the first recorded one."""
        known = await self._rows.query(KeyRange.only(partition), KeyRange(stop=_DAYS_END), limit=1)
        first = known.entities[0].row if known.entities else _DAYS_END
        upserts = [
            Upsert(Entity(partition, key, {"Subscribers": subscribers, "Verified": verified}))
            for day, (subscribers, verified) in sorted(days.items())
            if (key := day.isoformat()) < first
        ]
        # From the newest: after an interruption, the days that are still missing are the oldest.
        for end in range(len(upserts), 0, -_BATCH):
            await self._rows.apply(upserts[max(0, end - _BATCH) : end])


async def daily_totals(
    joined: AsyncIterator[Iterable[Joined]], today: date
) -> dict[date, tuple[int, int]]:
    """Return subscribers and verified ones at the end of each day before today, from the first
    subscriber on, but for a year at most."""
    first = today - timedelta(days=_DERIVED_DAYS)
    added: Counter[date] = Counter()
    verified: Counter[date] = Counter()
    async for some in joined:
        added.update(max(first, each.at.date()) for each in some)
        verified.update(max(first, at.date()) for each in some if (at := each.verified_at))
    return _accumulated(added, verified, today)


def _accumulated(
    added: Mapping[date, int], verified: Mapping[date, int], today: date
) -> dict[date, tuple[int, int]]:
    totals: dict[date, tuple[int, int]] = {}
    day, all_added, all_verified = min(added, default=today), 0, 0
    while day < today:
        all_added += added.get(day, 0)
        all_verified += verified.get(day, 0)
        totals[day] = (all_added, all_verified)
        day += _DAY
    return totals


def summed(
    one: Mapping[date, tuple[int, int]], other: Mapping[date, tuple[int, int]]
) -> dict[date, tuple[int, int]]:
    """Return the totals of both for each day; before its first day, a list counts as empty."""
    nobody = (0, 0)
    return {
        day: (
            one.get(day, nobody)[0] + other.get(day, nobody)[0],
            one.get(day, nobody)[1] + other.get(day, nobody)[1],
        )
        for day in sorted(one.keys() | other.keys())
    }


def list_partition(list_name: str) -> str:
    return f"list:{list_name}"


def day_key(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def hour_key(moment: datetime) -> str:
    return f"{_HOUR_PREFIX}{moment.astimezone(UTC):%Y-%m-%dT%H}"


def _day_end(row: str) -> datetime:
    return datetime.combine(date.fromisoformat(row), time(), UTC) + _DAY


def _hour_end(row: str) -> datetime:
    begin = datetime.strptime(row.removeprefix(_HOUR_PREFIX), "%Y-%m-%dT%H")
    return begin.replace(tzinfo=UTC) + _HOUR


def _point(entity: Entity, at: datetime) -> GrowthPoint:
    return GrowthPoint(
        at, entities.read(entity, "Subscribers", int), entities.read(entity, "Verified", int)
    )


def _up_to(now: GrowthPoint, points: list[GrowthPoint]) -> list[GrowthPoint]:
    """Replace the day or hour that has not ended by the present numbers."""
    return [*(point for point in points if point.at < now.at), now]
