"""A storage engine in memory, for the simulation. It passes the contract suite.

A `MemoryData` holds the data, and any number of `MemoryStore`s open it, as processes open a
database. Every operation acts in one step between two awaits (`MemoryData.call`). The simulation
replaces that method: requests take their time there, fail, or lose their replies.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from postroom.storage import (
    Lease,
    LeaseLost,
    QueueInfo,
    StoreClosed,
    StoreInfo,
)
from postroom.storage.checked import CheckedStore
from tests.simulation.loop import end
from tests.simulation.memory.blobs import MemoryContainer
from tests.simulation.memory.data import MemoryData
from tests.simulation.memory.queues import MemoryQueue
from tests.simulation.memory.tables import MemoryTable

T = TypeVar("T")

_SOONEST = 0.001  # a wait for a moment that is not quite there yet


class MemoryStore(CheckedStore):
    """One process's view of a `MemoryData`."""

    def __init__(self, data: MemoryData) -> None:
        self.data = data
        self._closed = False
        self._tables: dict[str, MemoryTable] = {}
        self._queues: dict[str, MemoryQueue] = {}

    def check_open(self) -> None:
        if self._closed:
            raise StoreClosed("this process has closed the store")

    def run(self, act: Callable[[], T]) -> Coroutine[Any, Any, T]:
        self.check_open()
        return self.data.call(self, act)

    def table(self, name: str) -> MemoryTable:
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = MemoryTable(name, self)
        return found

    def queue(self, name: str) -> MemoryQueue:
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = MemoryQueue(name, self)
        return found

    def container(self, name: str) -> MemoryContainer:
        return MemoryContainer(name, self)

    async def tables(self) -> list[str]:
        return await self.run(lambda: sorted(self.data.tables))

    async def queues(self) -> list[QueueInfo]:
        return await self.run(
            lambda: [self.queue(name).read_info() for name in sorted(self.data.queues)]
        )

    async def containers(self) -> list[str]:
        return await self.run(lambda: sorted(self.data.containers))

    async def _wait_for_messages(
        self, queues: frozenset[str] | None, excluding: frozenset[str], timeout: float
    ) -> frozenset[str]:
        deadline = self.data.clock() + timeout
        call_later = asyncio.get_running_loop().call_later
        while True:
            arrival = self.data.arrival()  # before looking, so that none is missed
            ready, next_at = await self.run(lambda: self._ready(queues, excluding))
            now = self.data.clock()
            if ready or now >= deadline:
                return ready
            timer = call_later(max(_SOONEST, min(next_at, deadline) - now), end, arrival)
            try:
                await arrival
            finally:
                timer.cancel()

    def _ready(
        self, queues: frozenset[str] | None, excluding: frozenset[str]
    ) -> tuple[frozenset[str], float]:
        """Return which queues have a ready message, and when the next delay or lease ends."""
        now, next_at = self.data.clock(), math.inf
        ready: set[str] = set()
        for name, messages in self.data.queues.items():
            if name in excluding or (queues is not None and name not in queues):
                continue
            for message in messages.values():
                if message.is_alive(now):
                    if message.visible_at <= now:
                        ready.add(name)
                        break
                    next_at = min(next_at, message.visible_at)
        return frozenset(ready), next_at

    async def _acquire_lease(self, name: str, seconds: float) -> Lease | None:
        def act() -> Lease | None:
            if self.data.lease_ends.get(name, 0.0) > self.data.clock():
                return None
            number = self.data.number()
            lease = Lease(name, number, seconds, str(number))
            self.data.leases[name] = lease
            self.data.lease_ends[name] = self.data.clock() + seconds
            return lease

        return await self.run(act)

    async def renew_lease(self, lease: Lease) -> None:
        await self.run(lambda: self._end_lease_at(lease, self.data.clock() + lease.seconds))

    async def release_lease(self, lease: Lease) -> None:
        def act() -> None:
            self._end_lease_at(lease, 0.0)
            del self.data.leases[lease.name]

        await self.run(act)

    def _end_lease_at(self, lease: Lease, moment: float) -> None:
        if self.data.leases.get(lease.name) != lease:
            raise LeaseLost(f"lease {lease.name!r} is no longer held by this holder")
        self.data.lease_ends[lease.name] = moment

    async def info(self) -> StoreInfo:
        return await self.run(lambda: StoreInfo("memory", "this process", 1))

    async def close(self) -> None:
        self._closed = True
        self.data.ring()
