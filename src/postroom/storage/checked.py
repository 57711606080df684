"""The half of the contract that is the same for every engine: what is refused, and short forms.

An engine derives from these classes and fills in the methods that begin with an underscore. It gets
only what has been checked, so it can pass values on without looking at them again.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from functools import lru_cache
from typing import get_args

import msgspec

from postroom.storage import limits
from postroom.storage.contract import (
    EVERY_KEY,
    BlobInfo,
    BlobListing,
    Container,
    Delete,
    DeleteMany,
    Entity,
    Insert,
    InsertMany,
    KeyRange,
    Lease,
    Merge,
    NewMessage,
    Operation,
    QueryResult,
    Queue,
    QueueMessage,
    Replace,
    S,
    SingleOperation,
    Store,
    StoredMessage,
    Table,
    Upsert,
)
from postroom.storage.errors import (
    AlreadyExists,
    Conflict,
    InvalidBatch,
    InvalidKey,
    InvalidValue,
    NotFound,
    StaleETag,
    StoreDamaged,
    TooLarge,
)
from postroom.storage.filters import Filter, check_filter
from postroom.storage.measuring import measured
from postroom.storage.names import (
    check_blob_name,
    check_container_name,
    check_key,
    check_keys,
    check_lease_name,
    check_queue_name,
    check_table_name,
)
from postroom.storage.values import (
    Properties,
    Value,
    check_alike,
    check_properties,
    check_text,
)

_SCANNED_AT_ONCE = 500  # queue messages, so that memory stays flat


class CheckedTable(Table):
    """A table whose engine implements what begins with an underscore."""

    def __init__(self, name: str) -> None:
        self.name = check_table_name(name)

    @abstractmethod
    async def _get(self, partition: str, row: str) -> Entity | None: ...

    @abstractmethod
    async def _apply(self, partition: str, operations: Sequence[Operation]) -> list[str]: ...

    @abstractmethod
    async def _merge_where(
        self, partition: str, rows: Sequence[str], changes: Properties, where: Filter
    ) -> dict[str, Entity]: ...

    @abstractmethod
    async def _query(
        self,
        partitions: KeyRange,
        rows: KeyRange,
        where: Filter | None,
        limit: int,
        after: str | None,
    ) -> QueryResult: ...

    @abstractmethod
    async def _read(
        self, kind: type[S], partition: str, rows: KeyRange, where: Filter | None, limit: int
    ) -> dict[str, S]: ...

    @abstractmethod
    async def _read_partitions(
        self, kind: type[S], partitions: Collection[str]
    ) -> dict[str, dict[str, S]]: ...

    @measured("table get")
    async def get(self, partition: str, row: str) -> Entity | None:
        return await self._get(check_key(partition), check_key(row))

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

    @measured("table apply")
    async def apply(self, operations: Sequence[Operation]) -> list[str]:
        return await self._apply(check_batch(operations), operations)

    @measured("table merge_where")
    async def merge_where(
        self,
        partition: str,
        rows: Collection[str],
        changes: Mapping[str, Value],
        where: Filter,
    ) -> dict[str, Entity]:
        wanted = sorted(set(rows))
        if not 1 <= len(wanted) <= limits.BATCH_OPERATIONS:
            raise InvalidBatch(
                f"a batch has 1 to {limits.BATCH_OPERATIONS} operations, not {len(wanted)}"
            )
        check_keys(wanted)
        check_filter(where)
        check_properties(changes)
        if any(isinstance(value, bytes) for value in changes.values()):
            raise InvalidValue("bytes cannot be merged under a condition")
        return await self._merge_where(check_key(partition), wanted, changes, where)

    @measured("table query")
    async def query(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = limits.QUERY_ROWS,
        after: str | None = None,
    ) -> QueryResult:
        check_range(partitions)
        check_range(rows)
        if where is not None:
            check_filter(where)
        check_count("limit", limit, limits.QUERY_ROWS)
        return await self._query(partitions, rows, where, limit, after)

    @measured("table read")
    async def read(
        self,
        kind: type[S],
        partition: str,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = limits.QUERY_ROWS,
    ) -> dict[str, S]:
        _check_kind(kind)
        check_key(partition)
        check_range(rows)
        if where is not None:
            check_filter(where)
        check_count("limit", limit, limits.QUERY_ROWS)
        try:
            return await self._read(kind, partition, rows, where, limit)
        except msgspec.DecodeError as exc:
            raise StoreDamaged(f"{self.name}({partition!r}): {exc}") from exc

    @measured("table read_partitions")
    async def read_partitions(
        self, kind: type[S], partitions: Collection[str]
    ) -> dict[str, dict[str, S]]:
        _check_kind(kind)
        check_keys(partitions)
        try:
            return await self._read_partitions(kind, partitions)
        except msgspec.DecodeError as exc:
            raise StoreDamaged(f"{self.name}: {exc}") from exc

    async def scan(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
    ) -> AsyncIterator[Entity]:
        after: str | None = None
        while True:
            result = await self.query(partitions, rows, where=where, after=after)
            for entity in result.entities:
                yield entity
            after = result.next
            if after is None:
                return


class CheckedQueue(Queue):
    """A queue whose engine implements the methods with an underscore."""

    def __init__(self, name: str) -> None:
        self.name = check_queue_name(name)

    @abstractmethod
    async def _put(self, messages: Sequence[NewMessage]) -> list[str]: ...

    @abstractmethod
    async def _receive(self, limit: int, lease: float) -> list[QueueMessage]: ...

    @abstractmethod
    async def _receive_by_id(self, identity: str, lease: float) -> QueueMessage | None: ...

    @abstractmethod
    async def _renew(self, message: QueueMessage, lease: float) -> QueueMessage: ...

    @abstractmethod
    async def _release(self, message: QueueMessage, delay: float, count_attempt: bool) -> None: ...

    @abstractmethod
    async def _move(
        self,
        message: QueueMessage,
        to: str,
        delay: float,
        properties: Mapping[str, str] | None,
    ) -> str: ...

    @abstractmethod
    async def _delete(self, message: QueueMessage) -> None: ...

    @abstractmethod
    async def _peek(self, limit: int) -> list[QueueMessage]: ...

    @abstractmethod
    async def _browse(self, limit: int, after: str | None) -> list[StoredMessage]: ...

    @abstractmethod
    async def _wait(self, timeout: float) -> bool: ...

    async def put(
        self,
        body: str,
        *,
        delay: float = 0.0,
        ttl: float | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        return (await self.put_many([NewMessage(body, delay, ttl, properties or {})]))[0]

    @measured("queue put_many")
    async def put_many(self, messages: Sequence[str | NewMessage]) -> list[str]:
        new = [NewMessage(m) if isinstance(m, str) else m for m in messages]
        for message in new:
            check_message(message)
        return await self._put(new) if new else []

    @measured("queue receive")
    async def receive(self, limit: int = 1, *, lease: float) -> list[QueueMessage]:
        check_count("limit", limit, limits.RECEIVE_MESSAGES)
        check_seconds("lease", lease, 1.0, limits.QUEUE_SECONDS)
        return await self._receive(limit, lease)

    @measured("queue receive_by_id")
    async def receive_by_id(self, identity: str, *, lease: float) -> QueueMessage | None:
        check_seconds("lease", lease, 1.0, limits.QUEUE_SECONDS)
        return await self._receive_by_id(identity, lease)

    @measured("queue renew")
    async def renew(self, message: QueueMessage, *, lease: float) -> QueueMessage:
        check_seconds("lease", lease, 1.0, limits.QUEUE_SECONDS)
        return await self._renew(self._leased(message), lease)

    @measured("queue release")
    async def release(
        self, message: QueueMessage, *, delay: float = 0.0, count_attempt: bool = True
    ) -> None:
        check_seconds("delay", delay, 0.0, limits.QUEUE_SECONDS)
        await self._release(self._leased(message), delay, count_attempt)

    @measured("queue move")
    async def move(
        self,
        message: QueueMessage,
        to: str,
        *,
        delay: float = 0.0,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        check_queue_name(to)
        kept = message.properties if properties is None else properties
        check_message(NewMessage(message.body, delay, None, kept), limits.MOVED_MESSAGE_BYTES)
        return await self._move(self._leased(message), to, delay, properties)

    @measured("queue delete")
    async def delete(self, message: QueueMessage) -> None:
        await self._delete(self._leased(message))

    @measured("queue peek")
    async def peek(self, limit: int = 1) -> list[QueueMessage]:
        check_count("limit", limit, limits.RECEIVE_MESSAGES)
        return await self._peek(limit)

    @measured("queue browse")
    async def browse(self, limit: int = 100, *, after: str | None = None) -> list[StoredMessage]:
        check_count("limit", limit, limits.QUERY_ROWS)
        return await self._browse(limit, after)

    async def scan(self) -> AsyncIterator[StoredMessage]:
        after: str | None = None
        while found := await self._browse(_SCANNED_AT_ONCE, after):
            for each in found:
                yield each
            after = found[-1].message.id

    async def wait(self, timeout: float) -> bool:
        check_seconds("timeout", timeout, 0.0)
        return await self._wait(timeout)

    def _leased(self, message: QueueMessage) -> QueueMessage:
        if message.queue != self.name:
            raise InvalidValue(f"a message of queue {message.queue!r} is not one of {self.name!r}")
        if not message.receipt:
            raise InvalidValue("a message that was only peeked at is not leased: receive it")
        return message


class CheckedContainer(Container):
    """A container whose engine implements the methods with an underscore."""

    def __init__(self, name: str) -> None:
        self.name = check_container_name(name)

    @abstractmethod
    async def _put(
        self, name: str, pieces: AsyncIterable[bytes], etag: str | None, new: bool
    ) -> str: ...

    @abstractmethod
    def _stream(self, name: str) -> AsyncIterator[bytes]: ...

    @abstractmethod
    async def _info(self, name: str) -> BlobInfo | None: ...

    @abstractmethod
    async def _list(self, prefix: str, limit: int, after: str | None) -> BlobListing: ...

    @abstractmethod
    async def _delete(self, name: str, etag: str | None) -> None: ...

    @measured("blob put")
    async def put(
        self,
        name: str,
        data: bytes | AsyncIterable[bytes],
        *,
        etag: str | None = None,
        new: bool = False,
    ) -> str:
        check_blob_name(name)
        if new and etag is not None:
            raise InvalidValue("a blob cannot be new and have an ETag")
        pieces = _one_piece(data) if isinstance(data, bytes) else data
        return await self._put(name, pieces, etag, new)

    @measured("blob read")
    async def read(self, name: str) -> bytes:
        return b"".join([piece async for piece in self.stream(name)])

    def stream(self, name: str) -> AsyncIterator[bytes]:
        return self._stream(check_blob_name(name))

    @measured("blob info")
    async def info(self, name: str) -> BlobInfo | None:
        return await self._info(check_blob_name(name))

    @measured("blob list")
    async def list(
        self,
        prefix: str = "",
        *,
        limit: int = limits.QUERY_ROWS,
        after: str | None = None,
    ) -> BlobListing:
        check_count("limit", limit, limits.QUERY_ROWS)
        check_text("prefix", prefix, limits.BLOB_NAME_BYTES)
        return await self._list(prefix, limit, after)

    @measured("blob delete")
    async def delete(self, name: str, etag: str | None = None) -> None:
        await self._delete(check_blob_name(name), etag)


class CheckedStore(Store):
    """A store whose engine implements the methods with an underscore."""

    @abstractmethod
    async def _wait_for_messages(
        self, queues: frozenset[str] | None, besides: frozenset[str], timeout: float
    ) -> frozenset[str]: ...

    @abstractmethod
    async def _acquire_lease(self, name: str, seconds: float) -> Lease | None: ...

    async def wait_for_messages(
        self,
        queues: Collection[str] | None = None,
        *,
        besides: Collection[str] = (),
        timeout: float,
    ) -> frozenset[str]:
        check_seconds("timeout", timeout, 0.0)
        without = frozenset(besides)
        names = None if queues is None else frozenset(check_queue_name(name) for name in queues)
        return await self._wait_for_messages(
            names if names is None else names - without, without, timeout
        )

    async def acquire_lease(self, name: str, *, seconds: float) -> Lease | None:
        check_lease_name(name)
        check_seconds("lease", seconds, 1.0, limits.LEASE_SECONDS)
        return await self._acquire_lease(name, seconds)


WITHOUT_ETAG = (Delete, DeleteMany, InsertMany)
"""Operations that `apply` answers with no ETag."""


def singly(operations: Sequence[Operation]) -> list[SingleOperation]:
    """The same, each row by itself."""
    single: list[SingleOperation] = []
    for operation in operations:
        if isinstance(operation, InsertMany):
            partition, shared = operation.partition, operation.shared
            single += [
                Insert(Entity(partition, row, {**own, **shared}))
                for row, own in operation.rows.items()
            ]
        elif isinstance(operation, DeleteMany):
            single += [Delete(operation.partition, row) for row in operation.rows]
        else:
            single.append(operation)
    return single


def key_of(operation: SingleOperation) -> tuple[str, str]:
    """Partition and row that an operation is about."""
    about = operation if isinstance(operation, Delete) else operation.entity
    return about.partition, about.row


def row_count(operations: Sequence[Operation]) -> int:
    """How many rows the operations are about."""
    return sum(
        len(each.rows) if isinstance(each, InsertMany | DeleteMany) else 1 for each in operations
    )


def misfit(
    table: str, operations: Sequence[Operation], etags: Mapping[str, str]
) -> Conflict | None:
    """The error of the first operation that does not fit the rows; None if all do.

    `etags` are those of the rows that are there. Each row occurs in a batch once, so no operation
    changes what another one finds.
    """
    for position, operation in enumerate(singly(operations)):
        partition, row = key_of(operation)
        what = described(table, partition, row)
        if isinstance(operation, Insert):
            if row in etags:
                return AlreadyExists(what, position)
        elif not isinstance(operation, Upsert):
            if row not in etags:
                return NotFound(what, position)
            if operation.etag is not None and operation.etag != etags[row]:
                return StaleETag(what, position)
    return None


def described(table: str, partition: str, row: str) -> str:
    """A row, as errors name it."""
    return f"{table}({partition!r}, {row!r})"


@lru_cache(maxsize=64)
def _check_kind(kind: type[msgspec.Struct]) -> None:
    """Refuse a struct that names bytes: they are stored apart, and are not read."""
    for field in msgspec.structs.fields(kind):
        if field.type is bytes or bytes in get_args(field.type):
            raise InvalidValue(f"{field.name}: bytes cannot be read as part of a struct; use query")


def check_count(what: str, count: int, most: int) -> None:
    if type(count) is not int or not 1 <= count <= most:
        raise InvalidValue(f"{what} is a whole number from 1 to {most}, not {count!r}")


def check_seconds(what: str, seconds: float, least: float, most: float = math.inf) -> None:
    if type(seconds) not in (int, float) or not least <= seconds <= most or math.isnan(seconds):
        upper = "" if most == math.inf else f" to {most:,.0f}"
        raise InvalidValue(f"{what} is a number of seconds from {least:g}{upper}, not {seconds!r}")


def check_range(keys: KeyRange) -> None:
    """Bounds are compared with keys, not kept: they may be longer or end in any character."""
    for bound in (keys.start, keys.stop):
        if bound is not None:
            if not isinstance(bound, str):
                raise InvalidKey(f"the bound of a key range is text, not {type(bound).__name__}")
            check_text("the bound of a key range", bound, limits.KEY_BYTES)


def check_batch(operations: Sequence[Operation]) -> str:
    """The one partition of a batch that can be done."""
    count = row_count(operations)
    if not 1 <= count <= limits.BATCH_OPERATIONS:
        raise InvalidBatch(f"a batch has 1 to {limits.BATCH_OPERATIONS} operations, not {count}")
    rows: set[str] = set()
    size = 0
    first: str | None = None
    for operation in operations:
        if isinstance(operation, Delete):
            partition = operation.partition
            rows.add(check_key(operation.row))
        elif isinstance(operation, DeleteMany):
            partition = operation.partition
            check_keys(operation.rows)
            rows.update(operation.rows)
        elif isinstance(operation, InsertMany):
            partition = operation.partition
            check_keys(operation.rows)
            rows.update(operation.rows)
            size += check_alike(operation.rows.values(), operation.shared)
        else:
            entity = operation.entity
            partition = entity.partition
            size += check_properties(entity.properties)
            rows.add(check_key(entity.row))
        if first is None:
            first = check_key(partition)
        elif partition != first:
            raise InvalidBatch(f"a batch stays in one partition: {first!r}, not {partition!r}")
    if len(rows) != count:
        raise InvalidBatch("a batch names each row once")
    if size > limits.BATCH_BYTES:
        raise TooLarge(f"a batch of {size:,} bytes, over the limit of {limits.BATCH_BYTES:,}")
    return first or ""


def check_message(message: NewMessage, most: int = limits.QUEUE_MESSAGE_BYTES) -> None:
    if not isinstance(message.body, str):
        raise InvalidValue(f"a queue message is text, not {type(message.body).__name__}")
    check_text("queue message", message.body, most)
    check_seconds("delay", message.delay, 0.0, limits.QUEUE_SECONDS)
    if message.ttl is not None:
        check_seconds("time to live", message.ttl, 1.0)
    if message.properties:
        for name, value in message.properties.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidValue("properties of a queue message are text")
            check_text("property name of a queue message", name)
            check_text(f"property {name!r} of a queue message", value)
        size = len(message.body.encode()) + len(msgspec.json.encode(message.properties))
        if size > most:
            raise TooLarge(
                f"queue message: {size:,} bytes with its properties, over the limit of {most:,}"
            )


async def _one_piece(data: bytes) -> AsyncIterator[bytes]:
    yield data


__all__ = [
    "WITHOUT_ETAG",
    "CheckedContainer",
    "CheckedQueue",
    "CheckedStore",
    "CheckedTable",
    "check_batch",
    "described",
    "key_of",
    "misfit",
    "row_count",
    "singly",
]
