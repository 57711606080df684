"""Whether everything works: queues and processes, the store, and proxies in front of the server.

| table       | partition   | row         | holds                           |
|-------------|-------------|-------------|---------------------------------|
| `storeinfo` | `store`     | `probe`     | what was written last: At, Data |
| `proxies`   | `untrusted` | its address | SeenAt: when it was last seen   |
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.messages.pages import CONFIRM_QUEUE, SCHEDULE_QUEUE, SEND_QUEUE
from postroom.domain.queues.queue_names import dead_letter_queue, poison_queue
from postroom.services.entities import read
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_overview import QueueOverview, QueueOverviewService
from postroom.storage import (
    AccessDenied,
    Entity,
    KeyRange,
    Store,
    StoreError,
    StoreFull,
    StoreMissing,
)

STUCK = timedelta(minutes=2)
"""A queue is stuck if its next message has been ready for this long."""

_NOBODY = ("no application", "no host")
_OWN = (SEND_QUEUE, CONFIRM_QUEUE)  # `postroom sender` handles these without a host


class Grade(StrEnum):
    """The severity of a concern."""

    STOPPED = "stopped"
    LOOK = "look"


class Concern(msgspec.Struct, frozen=True):
    """Something that needs attention in a queue. `since` is None if that is unknown."""

    grade: Grade
    text: str
    queue: str
    since: datetime | None = None


class Health(msgspec.Struct, frozen=True):
    """`waiting` and `failed` count messages of all queues but internal ones. Concerns about
    stopped queues come first."""

    hosts: int
    processes: int
    waiting: int
    failed: int
    concerns: list[Concern]


class _NextMessage(msgspec.Struct, frozen=True):
    """The next message of a queue, first seen at `seen`."""

    put: datetime
    length: int
    seen: datetime


class HealthService:
    """Compares each check with earlier ones: a long queue that moves is not a concern."""

    def __init__(
        self,
        hosts: HostStatusService,
        queues: QueueOverviewService,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._hosts = hosts
        self._queues = queues
        self._now = now
        self._heads: dict[str, _NextMessage] = {}

    async def look(self) -> Health:
        hosts = await self._hosts.current()
        queues = await self._queues.overview()
        self._remember(queues)
        outside = [each for each in queues if each.state != "internal"]
        return Health(
            hosts=len(hosts),
            processes=sum(len(app.processes) for host in hosts for app in host.apps),
            waiting=sum(each.length + each.retry for each in outside),
            failed=sum(each.poison + each.dead_letter for each in outside),
            concerns=sorted(
                (concern for each in queues for concern in self._concerns(each)),
                key=lambda concern: concern.grade is not Grade.STOPPED,
            ),
        )

    def _remember(self, queues: Iterable[QueueOverview]) -> None:
        heads: dict[str, _NextMessage] = {}
        for queue in queues:
            if queue.oldest is None:
                continue
            head = self._heads.get(queue.name)
            if head is None or (head.put, head.length) != (queue.oldest, queue.length):
                head = _NextMessage(queue.oldest, queue.length, self._now())
            heads[queue.name] = head
        self._heads = heads

    def _concerns(self, queue: QueueOverview) -> Iterable[Concern]:
        name = queue.name
        if queue.faulted is not None:
            yield Concern(Grade.STOPPED, f"{name} is stopped: {queue.faulted}", name)
        elif (since := self._stuck_since(queue)) is not None:
            yield Concern(Grade.STOPPED, _why_stuck(queue), name, since)
        for count, aside in (
            (queue.poison, poison_queue(name)),
            (queue.dead_letter, dead_letter_queue(name)),
        ):
            if count:
                messages = "1 message" if count == 1 else f"{count:,} messages"
                yield Concern(Grade.LOOK, f"{messages} in {aside}", aside, queue.failed_since)

    def _stuck_since(self, queue: QueueOverview) -> datetime | None:
        head = self._heads.get(queue.name)
        if head is None:
            return None
        nobody_takes_it = queue.state in _NOBODY and queue.name not in _OWN
        since = head.put if nobody_takes_it else head.seen
        return since if self._now() - since > STUCK else None


def _why_stuck(queue: QueueOverview) -> str:
    if queue.name == SCHEDULE_QUEUE:
        return "No scheduler is running, so due messages wait: postroom up starts one"
    return f"Messages wait in {queue.name}, and no process handles them ({queue.state})"


_PROBE_AGE = 5.0  # seconds for which a result is used again
_PROBE_SECONDS = 5.0  # a load balancer has given up by then
_PROBE_BYTES = 16_000  # more than fits into gaps of existing pages


class StoreHealth:
    """Finds out whether the store can be written, by writing."""

    def __init__(self, store: Store) -> None:
        self._table = store.table("storeinfo")
        self._looking = asyncio.Lock()
        self._looked_at = 0.0
        self._problem = ""

    async def problem(self) -> str:
        """Return in a few words why the store cannot be used; empty if it can. Anyone may read it,
        so it names no machines or files."""
        async with self._looking:
            if not self._looked_at or clock.monotonic() - self._looked_at > _PROBE_AGE:
                self._problem = await self._find()
                self._looked_at = clock.monotonic()
            return self._problem

    async def _find(self) -> str:
        data = os.urandom(_PROBE_BYTES)
        probe = Entity("store", "probe", {"At": clock.now(), "Data": data})
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._table.upsert(probe)
        except StoreFull:
            return "the store is full"
        except StoreMissing:
            return "the file of the store is missing"
        except AccessDenied:
            return "the store cannot be written"
        except (StoreError, TimeoutError):
            return "the store cannot be reached"
        return ""


_UNTRUSTED = "untrusted"
_RECENT = timedelta(days=2)
_MOST_PROXIES = 100


class ProxySightings:
    """Proxies that forward visitors without being trusted. Behind one, all visitors look like one
    and share its limits, so `postroom check` reports it."""

    def __init__(self, store: Store) -> None:
        self._table = store.table("proxies")

    async def record(self, address: str) -> None:
        """Record that a proxy at this address has forwarded a visitor."""
        await self._table.upsert(Entity(_UNTRUSTED, address, {"SeenAt": clock.now()}))

    async def recent(self) -> list[str]:
        """Return the addresses of proxies that were seen in the last days."""
        oldest = clock.now() - _RECENT
        found = await self._table.query(KeyRange.only(_UNTRUSTED), limit=_MOST_PROXIES)
        return [each.row for each in found.entities if read(each, "SeenAt", datetime) >= oldest]
