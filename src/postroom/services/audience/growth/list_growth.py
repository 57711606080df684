"""The numbers of subscribers of lists: counted from time to time, and kept up to date in between.

| table    | partition     | row  | holds                                                  |
|----------|---------------|------|--------------------------------------------------------|
| `growth` | `latest`      | list | Subscribers, Verified, Recipients, CountedAt, Seconds: |
|          |               |      | the last count, with the changes since                 |
| `growth` | others        |      | see `growth_history.py` and `list_movements.py`        |

Counting reads every subscriber, which takes five seconds for a million. So pages read these
figures, and one process at a time counts: less often, the longer it takes.

Changes between two counts are added to the latest figures: immediately where they are rare, and
about once per second where there are many. So a hundred sign-ups per second cost one more write per
second. A killed process loses at most its last second, and an import its last chunk; the next count
corrects that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import date, datetime
from typing import TypeVar

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.errors import Overtaken
from postroom.services import entities
from postroom.services.audience.growth.counting_lease import CountingLease
from postroom.services.audience.growth.growth_history import (
    EVERY,
    TABLE,
    Curve,
    GrowthHistory,
    GrowthPoint,
    Joined,
    daily_totals,
    list_partition,
    summed,
)
from postroom.services.audience.growth.list_movements import ListMovements
from postroom.services.audience.lists import ListService
from postroom.services.concurrency import retry_on_conflict, run_periodically
from postroom.storage import Entity, KeyRange, Lease, NotFound, Store, StoreDamaged, Value

log = logging.getLogger(__name__)

LATEST = "latest"
ROUND = 60.0
"""Seconds between two checks of which lists should be counted."""

_ROWS = 1000  # of one query
_WRITE_SECONDS = 1.0  # between two writes of changes
_LEASE = "growth"
_SHARE = 200  # counting a list may take 1/200 of the time,
_LONGEST_REST = 6 * 3600.0  # but each list is counted every day

R = TypeVar("R", bound=msgspec.Struct)


class Figures(msgspec.Struct, frozen=True):
    """Numbers of subscribers; recipients are verified and not blocked."""

    subscribers: int = 0
    verified: int = 0
    recipients: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.subscribers + other.subscribers,
            self.verified + other.verified,
            self.recipients + other.recipients,
        )

    def __sub__(self, other: Figures) -> Figures:
        return self + -other

    def __neg__(self) -> Figures:
        return Figures(-self.subscribers, -self.verified, -self.recipients)


def figures_of(subscriber: Subscriber) -> Figures:
    """Return the figures of one subscriber."""
    return Figures(1, int(subscriber.verified), int(subscriber.may_receive))


def figures_from(entity: Entity) -> Figures:
    verified = entities.read(entity, "Verified", int)
    recipients = entities.read_optional(entity, "Recipients", int)
    return Figures(
        entities.read(entity, "Subscribers", int),
        verified,
        verified if recipients is None else recipients,
    )


class ListCounts:
    def __init__(self, store: Store) -> None:
        self._rows = store.table(TABLE)
        self._changes: dict[ListName, Figures] = {}
        self._written_at = 0.0

    async def add(self, name: ListName, change: Figures) -> None:
        """Add a change of a list's figures; it is written now or together with later ones."""
        if change == Figures():
            return
        self._changes[name] = self._changes.get(name, Figures()) + change
        if clock.monotonic() - self._written_at >= _WRITE_SECONDS:
            await self.write()

    async def write(self) -> None:
        """Write all changes. Lists that were never counted are left out."""
        self._written_at = clock.monotonic()
        changes, self._changes = self._changes, {}
        for name, change in changes.items():
            await self._write(name, change)

    async def _write(self, name: ListName, change: Figures) -> None:
        async def change_row() -> None:
            found = await self._rows.get(LATEST, name)
            if found is None:
                return
            now = figures_from(found) + change
            figures = {
                "Subscribers": max(0, now.subscribers),
                "Verified": max(0, now.verified),
                "Recipients": max(0, now.recipients),
            }
            await self._rows.merge(Entity(LATEST, name, figures), found.etag)

        with contextlib.suppress(Overtaken):  # counted again within a day
            await retry_on_conflict(change_row, "list", name)


class ListSize(msgspec.Struct, frozen=True):
    """How many subscribers a list has: the last count plus the changes since."""

    name: ListName
    subscribers: int
    verified: int
    recipients: int
    counted_at: datetime


class GrowthService:
    def __init__(self, store: Store, lists: ListService) -> None:
        self._store = store
        self._subscribers = store.table(entities.LISTS)
        self._growth = store.table(TABLE)
        self._history = GrowthHistory(store)
        self._movements = ListMovements(store)
        self._lists = lists

    # -- reading -----------------------------------------------------------------------------

    async def sizes(self) -> list[ListSize]:
        """Return every list that was counted, largest first."""
        found = [_size_from(row) async for row in self._growth.scan(KeyRange.only(LATEST))]
        return sorted(found, key=lambda size: (-size.subscribers, size.name))

    async def curve(self, now: GrowthPoint, list_name: str | None = None) -> Curve:
        """Return the growth of a list, or of all lists, up to the present numbers."""
        return await self._history.curve(list_name, now=now)

    # -- counting ----------------------------------------------------------------------------

    async def keep_counting(self, stopping: asyncio.Event) -> None:
        """Count lists periodically until `stopping`. Of several processes, one at a time counts."""
        await run_periodically(self._store, _LEASE, self.count_due, every=ROUND, stopping=stopping)

    async def count_due(self, lease: Lease | None = None) -> int:
        """Count the lists whose figures are old, and record those of all lists; return how many
        were counted."""
        counting = CountingLease(self._store, lease)
        if not await self._history.is_built():
            await self._derive_history(counting)
        known = {row.row: row async for row in self._growth.scan(KeyRange.only(LATEST))}
        counted, total = 0, Figures()
        async for name in self._names():
            latest = known.pop(name, None)
            if latest is None or _is_due(latest):
                total += await self._count(name, counting)
                counted += 1
            else:
                figures = figures_from(latest)
                await self._record(list_partition(name), figures)
                total += figures
        for gone in known:
            with contextlib.suppress(NotFound):
                await self._movements.forget(gone)
                await self._growth.delete(LATEST, gone)
        await self._record(EVERY, total)
        return counted

    async def _names(self) -> AsyncIterator[ListName]:
        after: str | None = None
        while True:
            found = await self._lists.slice(after=after)
            for each in found.lists:
                yield each.name
            if (after := found.next) is None:
                return

    async def _derive_history(self, counting: CountingLease) -> None:
        """Derive the days before the first count from the dates of subscribers."""
        today = clock.now().date()
        total: dict[date, tuple[int, int]] = {}
        async for name in self._names():
            days = await daily_totals(self._joined(name, counting), today)
            await self._history.fill(list_partition(name), days)
            total = summed(total, days)
        await self._history.fill(EVERY, total)
        await self._history.finish_building()

    async def _joined(self, name: ListName, counting: CountingLease) -> AsyncIterator[list[Joined]]:
        async for rows in self._read(_Dates, name, counting):
            yield [
                Joined(
                    each.CreatedAt, (each.VerifiedAt or each.CreatedAt) if each.Verified else None
                )
                for each in rows
            ]

    async def count_now(self, name: ListName) -> ListSize:
        """Count a list immediately: about two seconds for a million on SQLite."""
        began = clock.monotonic()
        figures = await self._figures(name, None)
        return await self._note(name, figures, clock.monotonic() - began)

    async def _count(self, name: ListName, counting: CountingLease) -> Figures:
        began = clock.monotonic()
        figures = await self._figures(name, counting)
        await self._note(name, figures, clock.monotonic() - began)
        try:
            await self._movements.count(name, counting)
        except (Overtaken, StoreDamaged) as exc:  # `postroom check` says more about a damage
            log.warning("who joined and left %s was not counted: %s", name, exc)
        seconds: dict[str, Value] = {"Seconds": clock.monotonic() - began}
        await self._growth.merge(Entity(LATEST, name, seconds))
        return figures

    async def _figures(self, name: ListName, counting: CountingLease | None) -> Figures:
        total = Figures()
        async for rows in self._read(_State, name, counting):
            verified = [row for row in rows if row.Verified]
            receiving = sum(not row.Blocked for row in verified)
            total += Figures(len(rows), len(verified), receiving)
        return total

    async def _read(
        self, kind: type[R], name: ListName, counting: CountingLease | None
    ) -> AsyncIterator[list[R]]:
        """Yield all subscribers of a list, a thousand at a time."""
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = within.start
        while True:
            asked = clock.monotonic()
            rows = await self._subscribers.read(
                kind, name, KeyRange(start, within.stop), limit=_ROWS
            )
            yield list(rows.values())
            if len(rows) < _ROWS:
                return
            start = entities.key_after(next(reversed(rows)))
            if counting is not None:
                await counting.keep()
                # Leave half of the time to other work, such as pages.
                await asyncio.sleep(clock.monotonic() - asked)

    async def _note(self, name: ListName, total: Figures, seconds: float) -> ListSize:
        now = clock.now()
        await self._record(list_partition(name), total)
        latest: dict[str, Value] = {
            "Subscribers": total.subscribers,
            "Verified": total.verified,
            "Recipients": total.recipients,
            "CountedAt": now,
            "Seconds": seconds,
        }
        await self._growth.upsert(Entity(LATEST, name, latest))
        return ListSize(name, total.subscribers, total.verified, total.recipients, now)

    async def _record(self, partition: str, figures: Figures) -> None:
        await self._history.note(partition, figures.subscribers, figures.verified)


class _State(msgspec.Struct, frozen=True, gc=False):
    """The properties that are read of an `email:` row."""

    Verified: bool = False
    Blocked: str = ""


class _Dates(msgspec.Struct, frozen=True, gc=False):
    """The dates of an `email:` row."""

    CreatedAt: datetime
    Verified: bool = False
    VerifiedAt: datetime | None = None


def _is_due(latest: Entity) -> bool:
    age = (clock.now() - entities.read(latest, "CountedAt", datetime)).total_seconds()
    rest = _SHARE * entities.read(latest, "Seconds", float)
    return age > min(max(ROUND, rest), _LONGEST_REST)


def _size_from(entity: Entity) -> ListSize:
    figures = figures_from(entity)
    return ListSize(
        ListName(entity.row),
        figures.subscribers,
        figures.verified,
        figures.recipients,
        entities.read(entity, "CountedAt", datetime),
    )
