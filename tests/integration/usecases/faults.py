"""A real store whose user dies, or is overtaken, at a chosen write.

`Fate` counts the writes of everybody who uses the store through `Fated`. After `writes` of them the
power is cut: nothing works any more, as for a process that was killed there. `before` does
something else just before the n-th write: that is how two people meet.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import suppress

from postroom.storage import (
    EVERY_KEY,
    BlobInfo,
    BlobListing,
    Container,
    Delete,
    Entity,
    Filter,
    Insert,
    KeyRange,
    Lease,
    LeaseLost,
    Merge,
    MessageToPut,
    Operation,
    QueryResult,
    Queue,
    QueueInfo,
    QueueMessage,
    Replace,
    Store,
    StoredMessage,
    StoreInfo,
    Table,
    Upsert,
    Value,
)
from postroom.storage.contract.tables import S


class PowerCut(Exception):
    """The process is dead."""


class Fate:
    def __init__(
        self,
        writes: int | None = None,
        before: Mapping[int, Callable[[], Awaitable[object]]] | None = None,
    ) -> None:
        self._left = writes
        self._before = dict(before or {})
        self.written = 0
        self.is_dead = False
        self.received: list[QueueMessage] = []

    async def end_leases(self, store: Store) -> None:
        """What time does once the process is dead: its messages can be received again."""
        for message in self.received:
            with suppress(LeaseLost):
                await store.queue(message.queue).release(message)

    def look(self) -> None:
        if self.is_dead:
            raise PowerCut

    async def write(self) -> None:
        """Called before each write, which is then done."""
        self.look()
        if self.written == self._left:
            self.is_dead = True
            raise PowerCut
        self.written += 1
        action = self._before.pop(self.written, None)
        if action is not None:
            await action()


class FatedTable(Table):
    def __init__(self, inner: Table, fate: Fate) -> None:
        self.name = inner.name
        self._inner = inner
        self._fate = fate

    async def get(self, partition: str, row: str) -> Entity | None:
        self._fate.look()
        return await self._inner.get(partition, row)

    async def insert(self, entity: Entity) -> str:
        return (await self.apply([Insert(entity)]))[0]

    async def upsert(self, entity: Entity) -> str:
        return (await self.apply([Upsert(entity)]))[0]

    async def replace(self, entity: Entity, etag: str | None = None) -> str:
        return (await self.apply([Replace(entity, etag)]))[0]

    async def merge(self, entity: Entity, etag: str | None = None) -> str:
        return (await self.apply([Merge(entity, etag)]))[0]

    async def delete(self, partition: str, row: str, etag: str | None = None) -> None:
        await self.apply([Delete(partition, row, etag)])

    async def apply(self, operations: Sequence[Operation]) -> list[str]:
        await self._fate.write()
        return await self._inner.apply(operations)

    async def merge_where(
        self, partition: str, rows: Collection[str], changes: Mapping[str, Value], where: Filter
    ) -> dict[str, Entity]:
        await self._fate.write()
        return await self._inner.merge_where(partition, rows, changes, where)

    async def query(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = 1000,
        after: str | None = None,
    ) -> QueryResult:
        self._fate.look()
        return await self._inner.query(partitions, rows, where=where, limit=limit, after=after)

    async def read(
        self,
        kind: type[S],
        partition: str,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = 1000,
    ) -> dict[str, S]:
        self._fate.look()
        return await self._inner.read(kind, partition, rows, where=where, limit=limit)

    async def scan(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
    ) -> AsyncIterator[Entity]:
        async for entity in self._inner.scan(partitions, rows, where=where):
            self._fate.look()
            yield entity


class FatedQueue(Queue):
    def __init__(self, inner: Queue, fate: Fate) -> None:
        self.name = inner.name
        self._inner = inner
        self._fate = fate

    async def put(
        self,
        body: str,
        *,
        delay: float = 0.0,
        ttl: float | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        await self._fate.write()
        return await self._inner.put(body, delay=delay, ttl=ttl, properties=properties)

    async def put_many(self, messages: Sequence[str | MessageToPut]) -> list[str]:
        """One after the other: the contract says that a part of them may be in."""
        ids = []
        for message in messages:
            await self._fate.write()
            ids += await self._inner.put_many([message])
        return ids

    async def receive(self, limit: int = 1, *, lease: float) -> list[QueueMessage]:
        await self._fate.write()
        received = await self._inner.receive(limit, lease=lease)
        self._fate.received += received
        return received

    async def receive_by_id(self, identity: str, *, lease: float) -> QueueMessage | None:
        await self._fate.write()
        return await self._inner.receive_by_id(identity, lease=lease)

    async def renew(self, message: QueueMessage, *, lease: float) -> QueueMessage:
        await self._fate.write()
        return await self._inner.renew(message, lease=lease)

    async def release(
        self, message: QueueMessage, *, delay: float = 0.0, count_attempt: bool = True
    ) -> None:
        await self._fate.write()
        await self._inner.release(message, delay=delay, count_attempt=count_attempt)

    async def move(
        self,
        message: QueueMessage,
        to: str,
        *,
        delay: float = 0.0,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        await self._fate.write()
        return await self._inner.move(message, to, delay=delay, properties=properties)

    async def delete(self, message: QueueMessage) -> None:
        await self._fate.write()
        await self._inner.delete(message)

    async def peek(self, limit: int = 1) -> list[QueueMessage]:
        return await self._inner.peek(limit)

    async def browse(self, limit: int = 100, *, after: str | None = None) -> list[StoredMessage]:
        return await self._inner.browse(limit, after=after)

    def scan(self) -> AsyncIterator[StoredMessage]:
        return self._inner.scan()

    async def info(self) -> QueueInfo:
        return await self._inner.info()

    async def wait(self, timeout: float) -> bool:
        self._fate.look()
        return await self._inner.wait(timeout)

    async def purge(self) -> None:
        await self._fate.write()
        await self._inner.purge()

    async def drop(self) -> None:
        await self._fate.write()
        await self._inner.drop()


class FatedContainer(Container):
    def __init__(self, inner: Container, fate: Fate) -> None:
        self.name = inner.name
        self._inner = inner
        self._fate = fate

    async def put(
        self,
        name: str,
        data: bytes | AsyncIterable[bytes],
        *,
        etag: str | None = None,
        new: bool = False,
    ) -> str:
        await self._fate.write()
        return await self._inner.put(name, data, etag=etag, new=new)

    async def read(self, name: str) -> bytes:
        self._fate.look()
        return await self._inner.read(name)

    def stream(self, name: str) -> AsyncIterator[bytes]:
        return self._inner.stream(name)

    async def info(self, name: str) -> BlobInfo | None:
        return await self._inner.info(name)

    async def list(
        self, prefix: str = "", *, limit: int = 1000, after: str | None = None
    ) -> BlobListing:
        self._fate.look()
        return await self._inner.list(prefix, limit=limit, after=after)

    async def delete(self, name: str, etag: str | None = None) -> None:
        await self._fate.write()
        await self._inner.delete(name, etag)

    async def drop(self) -> None:
        await self._fate.write()
        await self._inner.drop()


class Fated(Store):
    """The store, for somebody whose fate is known."""

    def __init__(self, inner: Store, fate: Fate) -> None:
        self._inner = inner
        self._fate = fate

    def table(self, name: str) -> Table:
        return FatedTable(self._inner.table(name), self._fate)

    def queue(self, name: str) -> Queue:
        return FatedQueue(self._inner.queue(name), self._fate)

    def container(self, name: str) -> Container:
        return FatedContainer(self._inner.container(name), self._fate)

    async def tables(self) -> list[str]:
        return await self._inner.tables()

    async def queues(self) -> list[QueueInfo]:
        return await self._inner.queues()

    async def containers(self) -> list[str]:
        return await self._inner.containers()

    async def wait_for_messages(
        self,
        queues: Collection[str] | None = None,
        *,
        excluding: Collection[str] = (),
        timeout: float,
    ) -> frozenset[str]:
        return await self._inner.wait_for_messages(queues, excluding=excluding, timeout=timeout)

    async def acquire_lease(self, name: str, *, seconds: float) -> Lease | None:
        return await self._inner.acquire_lease(name, seconds=seconds)

    async def renew_lease(self, lease: Lease) -> None:
        await self._inner.renew_lease(lease)

    async def release_lease(self, lease: Lease) -> None:
        await self._inner.release_lease(lease)

    async def info(self) -> StoreInfo:
        return await self._inner.info()

    async def close(self) -> None:
        """The store belongs to the test."""


async def cut_after_each_write(
    attempt: Callable[[Fate, int], Awaitable[None]], *, at_most: int = 60, stride: int = 1
) -> int:
    """Do something that dies after 0, 1, 2 … writes, until it lives; answers how many it needed.

    `attempt` starts over each time, lets `PowerCut` be raised through `dies`, and looks at what is
    left behind.
    """
    for writes in range(0, at_most, stride):
        fate = Fate(writes)
        await attempt(fate, writes)
        if not fate.is_dead:
            return fate.written
    raise AssertionError(f"more than {at_most} writes")


async def dies(work: Awaitable[object]) -> bool:
    """Whether the power was cut before it was done."""
    try:
        await work
    except PowerCut:
        return True
    return False
