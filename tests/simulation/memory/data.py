"""The data of the engine in memory, and how its parts reach it."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

import msgspec

from postroom.storage import Entity, Lease, Properties
from tests.simulation.loop import end

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Connection(Protocol):
    """A store that has the data open."""

    data: MemoryData

    def check_open(self) -> None: ...

    def run(self, act: Callable[[], T]) -> Coroutine[Any, Any, T]: ...

    async def wait_for_messages(
        self,
        queues: Collection[str] | None = None,
        *,
        excluding: Collection[str] = (),
        timeout: float,
    ) -> frozenset[str]: ...


class Partition:
    """The rows of one partition, with their keys in order."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.rows: dict[str, tuple[Properties, str]] = {}

    def copied(self) -> Partition:
        copied = Partition()
        copied.keys, copied.rows = self.keys.copy(), self.rows.copy()
        return copied

    def put(self, row: str, properties: Properties, etag: str) -> None:
        if row not in self.rows:
            insort(self.keys, row)
        self.rows[row] = (properties, etag)

    def remove(self, row: str) -> None:
        del self.rows[row]
        del self.keys[bisect_left(self.keys, row)]


class QueuedMessage(msgspec.Struct):
    """A queue message, with all that changes while it is there."""

    number: int
    body: str
    properties: Mapping[str, str]
    enqueued_at: float
    visible_at: float
    expires_at: float | None
    dequeue_count: int = 0
    receipt: str = ""

    def is_alive(self, now: float) -> bool:
        return self.expires_at is None or self.expires_at > now


class Blob(msgspec.Struct):
    data: bytes
    etag: str
    modified_at: float


class MemoryData:
    """The data of one store, shared by everybody who has it open."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` tells the seconds since 1970."""
        self.clock = clock
        self.tables: dict[str, dict[str, Partition]] = {}
        self.queues: dict[str, dict[int, QueuedMessage]] = {}
        self.containers: dict[str, dict[str, Blob]] = {}
        self.leases: dict[str, Lease] = {}
        self.lease_ends: dict[str, float] = {}
        self._numbers = itertools.count(1)
        self._awaiting: list[asyncio.Future[None]] = []

    async def call(self, store: Connection, act: Callable[[], T]) -> T:
        """Perform one operation for a store that is open."""
        await asyncio.sleep(0)
        store.check_open()
        result = act()
        await asyncio.sleep(0)
        return result

    def written(self, table: str, entity: Entity) -> None:
        """Called after a row was written, for those who watch."""

    def queued(self, queue: str, what: str, message: QueuedMessage) -> None:
        """Called after a queue message was put, received, released or deleted."""

    def delivery_faults(self) -> tuple[int, float]:
        """Return how often a queue message is put, and how much later than asked for."""
        return 1, 0.0

    def start_numbers(self, first: int) -> None:
        self._numbers = itertools.count(first)

    def number(self) -> int:
        """Return a number that was never used: for ETags, ids, receipts and fencing."""
        return next(self._numbers)

    def ring(self) -> None:
        """Wake everybody who waits for a message."""
        awaiting, self._awaiting = self._awaiting, []
        for each in awaiting:
            end(each)

    def arrival(self) -> asyncio.Future[None]:
        """Return a future that the next `ring` ends."""
        arrival = asyncio.get_running_loop().create_future()
        self._awaiting.append(arrival)
        return arrival


def moment(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
