"""The numbers of subscribers of lists: counted from time to time, kept up to date in between, and
recorded by day.

| table    | partition     | row  | holds                                                  |
|----------|---------------|------|--------------------------------------------------------|
| `growth` | `latest`      | list | Subscribers, Verified, Recipients, CountedAt, Seconds: |
|          |               |      | the last count, with the changes since                 |
| `growth` | `list:NAME`   | day  | Subscribers, Verified of a list                        |
| `growth` | `all`         | day  | Subscribers, Verified of all lists together            |

Counting reads every subscriber, which takes five seconds for a million. So pages read these
figures, and one process at a time counts: less often, the longer it takes.

Changes between two counts are added to the latest figures: at once where they are rare, and about
once per second where they are many, so that a hundred sign-ups per second cost one more write per
second. A killed process loses at most its last second, and an import its last chunk; the next count
corrects that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import date, datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.audience.lists import ListName, Subscriber
from postroom.domain.errors import Overtaken
from postroom.domain.messages.messages import day_of
from postroom.services import entities
from postroom.services.audience.lists import ListService
from postroom.services.concurrency import retry_on_conflict, run_periodically
from postroom.storage import Entity, KeyRange, Lease, NotFound, Store, Value

TABLE = "growth"
EVERY = "all"
LATEST = "latest"
ROUND = 60.0
"""Seconds between two checks of which lists should be counted."""

_ROWS = 1000  # of one query
_WRITE_SECONDS = 1.0  # between two writes of changes
_LEASE = "growth"
_RENEW_AFTER = 15.0
_SHARE = 200  # counting a list may take 1/200 of the time,
_LONGEST_REST = 6 * 3600.0  # but each list is counted every day

_log = logging.getLogger(__name__)


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

    def __neg__(self) -> Figures:
        return Figures(-self.subscribers, -self.verified, -self.recipients)


def figures_of(subscriber: Subscriber | None) -> Figures:
    """Return the figures of one subscriber, or zeros without one."""
    if subscriber is None:
        return Figures()
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

    async def changed(self, name: ListName, old: Subscriber | None, new: Subscriber | None) -> None:
        """Count a subscriber who was added, removed or changed."""
        await self.add(name, figures_of(new) + -figures_of(old))

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


class GrowthPoint(msgspec.Struct, frozen=True):
    """The last count of a day."""

    day: date
    subscribers: int
    verified: int


class GrowthService:
    def __init__(self, store: Store, lists: ListService) -> None:
        self._store = store
        self._subscribers = store.table(entities.LISTS)
        self._growth = store.table(TABLE)
        self._lists = lists

    # -- reading -----------------------------------------------------------------------------

    async def sizes(self) -> list[ListSize]:
        """Return every list that was counted, largest first."""
        found = [_size_from(row) async for row in self._growth.scan(KeyRange.only(LATEST))]
        return sorted(found, key=lambda size: (-size.subscribers, size.name))

    async def history(self, list_name: str | None = None, *, days: int = 90) -> list[GrowthPoint]:
        """Return the last days of a list, or of all lists; days without a count are missing."""
        partition = EVERY if list_name is None else _partition(list_name)
        first = day_of(clock.now() - timedelta(days=days))
        rows = self._growth.scan(KeyRange.only(partition), KeyRange(start=first))
        return [_point_from(row) async for row in rows]

    # -- counting ----------------------------------------------------------------------------

    async def keep_counting(self, stopping: asyncio.Event) -> None:
        """Count lists periodically until `stopping`. Of several processes, one at a time counts."""
        await run_periodically(self._store, _LEASE, self.count_due, every=ROUND, stopping=stopping)

    async def count_due(self, lease: Lease | None = None) -> int:
        """Count the lists whose figures are old; return how many."""
        turn = _Turn(self._store, lease)
        known = {row.row: row async for row in self._growth.scan(KeyRange.only(LATEST))}
        counted = 0
        after: str | None = None
        while True:
            page = await self._lists.page(after=after)
            for mailing_list in page.lists:
                if _is_due(known.pop(mailing_list.name, None)):
                    await self._count(mailing_list.name, turn)
                    counted += 1
            if (after := page.next) is None:
                break
        for gone in known:
            with contextlib.suppress(NotFound):
                await self._growth.delete(LATEST, gone)
        if counted or known:
            await self._sum_up()
        return counted

    async def count_now(self, name: ListName) -> ListSize:
        """Count a list at once: about two seconds for a million on SQLite."""
        began = clock.monotonic()
        figures = await self._figures(name, None)
        return await self._note(name, figures, clock.monotonic() - began)

    async def _count(self, name: ListName, turn: _Turn) -> None:
        began = clock.monotonic()
        figures = await self._figures(name, turn)
        await self._note(name, figures, clock.monotonic() - began)

    async def _figures(self, name: ListName, turn: _Turn | None) -> Figures:
        total = Figures()
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = within.start
        while True:
            asked = clock.monotonic()
            rows = await self._subscribers.read(
                _State, name, KeyRange(start, within.stop), limit=_ROWS
            )
            verified = [row for row in rows.values() if row.Verified]
            receiving = sum(not row.Blocked for row in verified)
            total += Figures(len(rows), len(verified), receiving)
            if len(rows) < _ROWS:
                return total
            start = entities.behind(next(reversed(rows)))
            if turn is not None:
                await turn.keep()
                # Leave half of the time to other work, such as pages.
                await asyncio.sleep(clock.monotonic() - asked)

    async def _note(self, name: ListName, total: Figures, seconds: float) -> ListSize:
        now = clock.now()
        figures: dict[str, Value] = {
            "Subscribers": total.subscribers,
            "Verified": total.verified,
        }
        await self._growth.upsert(Entity(_partition(name), day_of(now), figures))
        latest: dict[str, Value] = {
            **figures,
            "Recipients": total.recipients,
            "CountedAt": now,
            "Seconds": seconds,
        }
        await self._growth.upsert(Entity(LATEST, name, latest))
        return ListSize(name, total.subscribers, total.verified, total.recipients, now)

    async def _sum_up(self) -> None:
        sizes = await self.sizes()
        figures: dict[str, Value] = {
            "Subscribers": sum(size.subscribers for size in sizes),
            "Verified": sum(size.verified for size in sizes),
        }
        await self._growth.upsert(Entity(EVERY, day_of(clock.now()), figures))


class _State(msgspec.Struct, frozen=True, gc=False):
    """The properties that are read of an `email:` row."""

    Verified: bool = False
    Blocked: str = ""


class _Turn:
    """The lease for counting, renewed in between."""

    def __init__(self, store: Store, lease: Lease | None) -> None:
        self._store = store
        self._lease = lease
        self._renewed = clock.monotonic()

    async def keep(self) -> None:
        """Renew the lease if necessary. `LeaseLost` if another process has it now."""
        if self._lease is not None and clock.monotonic() - self._renewed > _RENEW_AFTER:
            await self._store.renew_lease(self._lease)
            self._renewed = clock.monotonic()


def _partition(list_name: str) -> str:
    return f"list:{list_name}"


def _is_due(latest: Entity | None) -> bool:
    if latest is None:
        return True
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


def _point_from(entity: Entity) -> GrowthPoint:
    return GrowthPoint(
        date.fromisoformat(entity.row),
        entities.read(entity, "Subscribers", int),
        entities.read(entity, "Verified", int),
    )
