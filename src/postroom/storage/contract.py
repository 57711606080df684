"""The store: tables, queues, blobs and leases. All of Postroom is written against this module.

Three engines implement it, chosen by URL (`open_store`): SQLite, PostgreSQL and Azure Storage.
These promises hold for all of them:

- **Durable.** What has been written when a call returns survives a crash of the process and of the
  machine.
- **All or nothing.** A write that raises an error has written nothing, with two exceptions:
  `Queue.put_many`, and `StoreUnavailable`, after which the outcome of the last write is unknown:
  read, or repeat it. Every use of the store in Postroom can be repeated.
- **Checked.** What not every engine could store is refused by all of them with an `InvalidRequest`,
  before anything is sent to the engine (`errors.py` has the tree of errors, `limits.py` the sizes).
- **Created when needed.** The first write creates a table, queue or container. Reading before that
  finds nothing and is not an error.
- **Concurrent.** Any number of tasks, processes and (except for SQLite) machines may use one store.
  One `Store` object belongs to one event loop.
- **Cancelled calls** may or may not have taken effect, as if the process had died.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

import msgspec

from postroom.storage.filters import Filter
from postroom.storage.values import Value

S = TypeVar("S", bound=msgspec.Struct)

# --------------------------------------------------------------------------------------------
# Tables


class Entity(msgspec.Struct, frozen=True):
    """A row of a table. The store sets the ETag; an entity that is to be written has none."""

    partition: str
    row: str
    properties: Mapping[str, Value]
    etag: str = ""


class KeyRange(msgspec.Struct, frozen=True):
    """Keys from `start` up to `stop` (excluded, unless `including_stop`). None means no bound."""

    start: str | None = None
    stop: str | None = None
    including_stop: bool = False

    @classmethod
    def only(cls, key: str) -> KeyRange:
        """Return the range of a single key."""
        return cls(key, key, including_stop=True)

    @classmethod
    def prefix(cls, prefix: str) -> KeyRange:
        """Return the range of all keys that begin with `prefix`."""
        return cls(prefix or None, _after_all_with(prefix))

    @classmethod
    def between(cls, first: str, last: str) -> KeyRange:
        """Return the range from `first` to `last`, both included."""
        return cls(first, last, including_stop=True)

    @property
    def single(self) -> str | None:
        """The key, if the range contains only one."""
        return self.start if self.including_stop and self.start == self.stop else None


EVERY_KEY = KeyRange()


class Insert(msgspec.Struct, frozen=True):
    """Insert a row. `AlreadyExists`."""

    entity: Entity


class Upsert(msgspec.Struct, frozen=True):
    """Insert a row, or replace the existing one."""

    entity: Entity


class Replace(msgspec.Struct, frozen=True):
    """Replace all properties. `NotFound`; `StaleETag` if `etag` is given and is not the row's."""

    entity: Entity
    etag: str | None = None


class Merge(msgspec.Struct, frozen=True):
    """Replace the given properties and keep the others. Same errors as `Replace`."""

    entity: Entity
    etag: str | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete a row. Same errors as `Replace`."""

    partition: str
    row: str
    etag: str | None = None


class InsertMany(msgspec.Struct, frozen=True):
    """Insert rows that have most of their properties in common: each has its own, which are text,
    and those that are `shared`. Same errors as `Insert`; much cheaper than one `Insert` per row."""

    partition: str
    rows: Mapping[str, Mapping[str, str]]
    shared: Mapping[str, Value] = {}


class DeleteMany(msgspec.Struct, frozen=True):
    """Delete rows without ETags. Same errors as `Delete`; much cheaper than a `Delete` per row."""

    partition: str
    rows: Collection[str]


SingleOperation: TypeAlias = Insert | Upsert | Replace | Merge | Delete
Operation: TypeAlias = SingleOperation | InsertMany | DeleteMany


class QueryResult(msgspec.Struct, frozen=True):
    """Entities in key order. `next` is the token to continue with; None at the end."""

    entities: list[Entity]
    next: str | None


class Table(ABC):
    """Entities by partition key and row key, which are ordered by code point."""

    name: str

    @abstractmethod
    async def get(self, partition: str, row: str) -> Entity | None:
        """Return the entity, or None. Sees every write that returned before the call."""

    @abstractmethod
    async def insert(self, entity: Entity) -> str:
        """Write a new row; return its ETag. `AlreadyExists`."""

    @abstractmethod
    async def upsert(self, entity: Entity) -> str:
        """Write the row, whether it exists or not; return its ETag."""

    @abstractmethod
    async def replace(self, entity: Entity, etag: str | None = None) -> str:
        """Replace all properties of an existing row; return its new ETag.

        `NotFound`; `StaleETag` if `etag` is given and the row has another one now. Of two callers
        with the same ETag, exactly one succeeds. `entity.etag` is ignored.
        """

    @abstractmethod
    async def merge(self, entity: Entity, etag: str | None = None) -> str:
        """Replace the given properties of an existing row and keep the others. As `replace`."""

    @abstractmethod
    async def delete(self, partition: str, row: str, etag: str | None = None) -> None:
        """Delete an existing row. As `replace`."""

    @abstractmethod
    async def apply(self, operations: Sequence[Operation]) -> list[str]:
        """Do 1 to 100 operations in one partition, all or none; return the new ETags in order
        (empty for deletions and for `InsertMany`).

        Each row of an `InsertMany` or a `DeleteMany` counts as an operation. Each row may occur
        once. If an operation fails, its error is raised, with its position in `.operation`, and
        nothing is written. No reader ever sees a part of a batch.
        """

    @abstractmethod
    async def merge_where(
        self,
        partition: str,
        rows: Collection[str],
        changes: Mapping[str, Value],
        where: Filter,
    ) -> dict[str, Entity]:
        """Merge `changes`, which contain no bytes, into those of these 1 to 100 rows that match
        `where`; return the changed rows.

        Each row is changed independently. If a changed row no longer matches, exactly one of
        several callers gets it.
        """

    @abstractmethod
    async def query(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = 1000,
        after: str | None = None,
    ) -> QueryResult:
        """Return up to `limit` (1 to 1,000) entities with keys in both ranges that match `where`.

        Fewer than `limit` means that there are no more. To continue, pass `next` as `after` with
        the same ranges and filter: rows that were written after that point meanwhile are found,
        deleted ones are not, and none is returned twice. If `partitions` is a single key, the cost
        grows with the rows in the key range, not with the table.
        """

    @abstractmethod
    async def read(
        self,
        kind: type[S],
        partition: str,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = 1000,
    ) -> dict[str, S]:
        """Return up to `limit` rows of one partition by key, in key order, each as a `kind`: a
        struct with the wanted properties, none of which are bytes. Other properties are ignored;
        missing ones get the struct's defaults. Much cheaper than `query`.

        If there are as many as `limit`, more may follow. `StoreDamaged` if a property has another
        type than in the struct.
        """

    @abstractmethod
    async def read_partitions(
        self, kind: type[S], partitions: Collection[str]
    ) -> dict[str, dict[str, S]]:
        """Return all rows of some small partitions by key, in any order. As `read`."""

    @abstractmethod
    def scan(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
    ) -> AsyncIterator[Entity]:
        """Yield everything that `query` finds, with constant memory."""


# --------------------------------------------------------------------------------------------
# Queues


class MessageToPut(msgspec.Struct, frozen=True):
    """A queue message that is to be put.

    It can be received from `delay` seconds from now until `ttl` seconds from now (None: forever).
    If it is leased when its time to live ends, it may still be finished, or may be gone. Engines
    may round both up to whole seconds. `properties` accompany the body.
    """

    body: str
    delay: float = 0.0
    ttl: float | None = None
    properties: Mapping[str, str] = {}


class QueueMessage(msgspec.Struct, frozen=True):
    """A queue message that was received or peeked at.

    `dequeue_count` is the number of receives, including this one, without those that were released
    uncounted. `receipt` proves the lease; it is empty if the message was only peeked at.
    """

    id: str
    queue: str
    body: str
    properties: Mapping[str, str]
    dequeue_count: int
    enqueued_at: datetime
    receipt: str = ""


class StoredMessage(msgspec.Struct, frozen=True):
    """A queue message with the times when it becomes ready (a delay or a lease ends) and expires:
    everything that is needed to copy it. Its receipt is empty."""

    message: QueueMessage
    ready_at: datetime
    expires_at: datetime | None


class QueueInfo(msgspec.Struct, frozen=True):
    """`length` counts all messages: ready, delayed and leased. `oldest` is when the next ready
    message was put; None if none is ready. Both are approximate: Azure counts expired messages
    until it removes them."""

    name: str
    length: int
    oldest: datetime | None


class Queue(ABC):
    """Messages that are received under a lease and deleted when they are done: at least once each.

    Messages are received in the order of arrival, unless they are delayed or released or their
    lease expires. If a receiver dies, its lease expires, and another one receives the message, with
    a higher dequeue count.

    An expired lease is lost once another receiver has got the message (or deleted it). From then
    on, `renew`, `release`, `move` and `delete` with the old receipt raise `LeaseLost` and change
    nothing. Until then they still work.
    """

    name: str

    @abstractmethod
    async def put(
        self,
        body: str,
        *,
        delay: float = 0.0,
        ttl: float | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Put one message; return its ID. See `MessageToPut`."""

    @abstractmethod
    async def put_many(self, messages: Sequence[str | MessageToPut]) -> list[str]:
        """Put any number of messages in this order; return their IDs.

        Not atomic: after `StoreUnavailable`, `StoreFull` or a crash of this process, some of them
        may have been put. If the engine's reply was lost and the put repeated, a message may have
        been put twice: queues deliver at least once.
        """

    @abstractmethod
    async def receive(self, limit: int = 1, *, lease: float) -> list[QueueMessage]:
        """Receive up to `limit` (1 to 32) ready messages for `lease` seconds (1 to 7 days).

        Nobody else receives them before the lease expires. Does not wait: an empty result means
        that nothing was ready. The receive itself increases the dequeue count, so a receiver that
        dies right afterwards is counted, too.
        """

    @abstractmethod
    async def receive_by_id(self, identity: str, *, lease: float) -> QueueMessage | None:
        """Receive this message, if it is in this queue and ready; otherwise return None. As
        `receive`.

        Azure cannot select one: up to a thousand ready messages are received first, and released
        uncounted, in another order.
        """

    @abstractmethod
    async def renew(self, message: QueueMessage, *, lease: float) -> QueueMessage:
        """Extend the lease to `lease` seconds from now. `LeaseLost`.

        Return the message with its new receipt; the old one may no longer work.
        """

    @abstractmethod
    async def release(
        self, message: QueueMessage, *, delay: float = 0.0, count_attempt: bool = True
    ) -> None:
        """Return the message to the queue before its lease expires, ready after `delay`. The
        receipt becomes invalid. `LeaseLost`.

        `count_attempt=False`: this receive does not count in `dequeue_count`.
        """

    @abstractmethod
    async def move(
        self,
        message: QueueMessage,
        to: str,
        *,
        delay: float = 0.0,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Move the message to the queue `to`, which may be this one, ready after `delay`; return
        its ID there. The receipt becomes invalid. `LeaseLost`.

        The dequeue count is reset, and properties are replaced if given; body and `enqueued_at`
        stay. SQLite and PostgreSQL do it in one step: the message is always in exactly one of the
        two queues, with the same ID and time to live. Azure puts it into the other queue first and
        then deletes it here: a crash in between leaves it in both. It gets another ID and loses its
        time to live.
        """

    @abstractmethod
    async def delete(self, message: QueueMessage) -> None:
        """Delete the message, because it is done. `LeaseLost`."""

    @abstractmethod
    async def peek(self, limit: int = 1) -> list[QueueMessage]:
        """Return up to `limit` (1 to 32) ready messages, next first, without changing anything."""

    @abstractmethod
    async def browse(self, limit: int = 100, *, after: str | None = None) -> list[StoredMessage]:
        """Return up to `limit` (1 to 1,000) messages, including delayed and leased ones, without
        changing anything: the first ones in the order of arrival, or those after the ID `after`,
        which may be gone by now. Fewer than `limit` means that no more follow. `InvalidValue` if
        `after` cannot be an ID.

        Azure shows only the next 32 that are ready, and nothing after one that is no longer among
        them.
        """

    @abstractmethod
    def scan(self) -> AsyncIterator[StoredMessage]:
        """Yield every message, including delayed and leased ones, without changing anything, with
        constant memory.

        For administration: it reads the whole queue. Azure shows only ready messages, which are
        received one after the other and released, uncounted, at the end.
        """

    @abstractmethod
    async def info(self) -> QueueInfo:
        """Return the approximate length, and since when the next message waits."""

    @abstractmethod
    async def wait(self, timeout: float) -> bool:
        """Wait until a message is ready; return True, or False after `timeout` seconds.

        A message becomes ready when it is put, or when its delay or lease ends. SQLite and
        PostgreSQL notify at once; Azure is polled with growing pauses. A lost notification costs a
        second, never the message.
        """

    @abstractmethod
    async def purge(self) -> None:
        """Delete all messages, including leased ones."""

    @abstractmethod
    async def drop(self) -> None:
        """Delete the queue with all its messages, if it exists."""


# --------------------------------------------------------------------------------------------
# Blobs


class BlobInfo(msgspec.Struct, frozen=True):
    """A blob without its content."""

    name: str
    size: int
    etag: str
    modified_at: datetime


class BlobListing(msgspec.Struct, frozen=True):
    """Blobs sorted by name. `next` is the token to continue after the last one; None at the end.

    Azure sorts characters beyond U+FFFF before those from U+E000 on."""

    blobs: list[BlobInfo]
    next: str | None


class Container(ABC):
    """Blobs by name: bytes of any size, written and read as streams."""

    name: str

    @abstractmethod
    async def put(
        self,
        name: str,
        data: bytes | AsyncIterable[bytes],
        *,
        etag: str | None = None,
        new: bool = False,
    ) -> str:
        """Write a blob, completely or not at all; return its ETag.

        Readers see the old content until the last byte is written. With `etag`: `NotFound`, or
        `StaleETag` if the blob has another one now. With `new`: `AlreadyExists`. If the stream
        raises an error, the blob does not change.
        """

    @abstractmethod
    async def read(self, name: str) -> bytes:
        """Return the content of a blob. `NotFound`."""

    @abstractmethod
    def stream(self, name: str) -> AsyncIterator[bytes]:
        """Yield a blob in pieces, with constant memory. `NotFound`.

        All pieces are of one version: `StaleETag` if the blob is replaced or deleted meanwhile.
        """

    @abstractmethod
    async def info(self, name: str) -> BlobInfo | None:
        """Return size, ETag and time of the last write, or None."""

    @abstractmethod
    async def list(
        self, prefix: str = "", *, limit: int = 1000, after: str | None = None
    ) -> BlobListing:
        """Return up to `limit` (1 to 1,000) blobs whose names begin with `prefix`."""

    @abstractmethod
    async def delete(self, name: str, etag: str | None = None) -> None:
        """Delete a blob. `NotFound`; `StaleETag` as for `put`."""

    @abstractmethod
    async def drop(self) -> None:
        """Delete the container with all its blobs, if it exists."""


# --------------------------------------------------------------------------------------------
# Leases and the store


class Lease(msgspec.Struct, frozen=True):
    """The exclusive right to a name for `seconds`, from when it was acquired or renewed.

    `fencing` is larger than that of every earlier lease of this name, so a holder that was
    suspended and returns late can be recognised. `seconds` may be more than requested (on Azure, at
    least 15).
    """

    name: str
    fencing: int
    seconds: float
    token: str


class StoreInfo(msgspec.Struct, frozen=True):
    """For people: engine and its version, location (without secrets), schema version."""

    engine: str
    location: str
    schema_version: int


class Batch(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order` that does the same as `Table.apply`."""

    table: str
    operations: Sequence[Operation]


class Finish(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order` that does the same as `Queue.delete`."""

    message: QueueMessage


class Put(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order` that does the same as `Queue.put_many`."""

    queue: str
    messages: Sequence[MessageToPut]


Step: TypeAlias = Batch | Finish | Put


class Server(msgspec.Struct, frozen=True):
    """A database server. `history` changes when a standby is promoted, `started_at` whenever the
    server starts. Both are empty if unknown."""

    history: str = ""
    started_at: str = ""


class Store(ABC):
    """An open store. `async with` closes it."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """Return the table of this name: 3 to 63 lower-case letters and digits."""

    @abstractmethod
    def queue(self, name: str) -> Queue:
        """Return the queue of this name: a path of up to 255 printable characters."""

    @abstractmethod
    def container(self, name: str) -> Container:
        """Return the container of this name: 3 to 63 lower-case letters, digits, single hyphens."""

    @abstractmethod
    async def tables(self) -> list[str]:
        """Return the names of all tables, sorted."""

    @abstractmethod
    async def queues(self) -> list[QueueInfo]:
        """Return all queues, sorted by name."""

    @abstractmethod
    async def containers(self) -> list[str]:
        """Return the names of all containers, sorted."""

    async def write_in_order(self, steps: Sequence[Step], *, patience: float = 0.0) -> None:
        """Do one step after the other. The first one that fails raises its error: earlier steps are
        done, later ones are not.

        If the process dies, the steps up to one of them have been done. Where possible, an engine
        does all of them in one transaction, and may wait `patience` seconds for other calls to
        share it.
        """
        for step in steps:
            match step:
                case Batch(table, operations):
                    await self.table(table).apply(operations)
                case Finish(message):
                    await self.queue(message.queue).delete(message)
                case Put(queue, messages):
                    await self.queue(queue).put_many(messages)

    @abstractmethod
    async def wait_for_messages(
        self,
        queues: Collection[str] | None = None,
        *,
        besides: Collection[str] = (),
        timeout: float,
    ) -> frozenset[str]:
        """Wait until at least one of these queues has a ready message; return those that have one,
        or nothing after `timeout` seconds.

        None stands for all queues, including those that are created while waiting. Queues in
        `besides` are ignored. Otherwise as `Queue.wait`.
        """

    @abstractmethod
    async def acquire_lease(self, name: str, *, seconds: float) -> Lease | None:
        """Acquire a lease for 1 to 60 seconds; return None while there is another holder.

        A holder that dies is replaced once its lease has expired.
        """

    @abstractmethod
    async def renew_lease(self, lease: Lease) -> None:
        """Extend the lease to `lease.seconds` from now. `LeaseLost` if it was released, or expired
        and went to another holder."""

    @abstractmethod
    async def release_lease(self, lease: Lease) -> None:
        """Release the lease at once. `LeaseLost` as for `renew_lease`."""

    @property
    def server(self) -> Server:
        """The server of the newest connection; always the same for an engine without a server."""
        return Server()

    @abstractmethod
    async def info(self) -> StoreInfo:
        """Return what the URL leads to. Fails if it cannot be reached."""

    @abstractmethod
    async def close(self) -> None:
        """Finish running calls and close the store. Later calls raise `StoreClosed`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _after_all_with(prefix: str) -> str | None:
    """Return the smallest text that is larger than every text with this prefix, if there is one."""
    for end in range(len(prefix), 0, -1):
        successor = ord(prefix[end - 1]) + 1
        if successor == 0xD800:  # surrogates are not characters
            successor = 0xE000
        if successor <= 0x10FFFF:
            return prefix[: end - 1] + chr(successor)
    return None
