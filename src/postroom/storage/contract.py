"""The store: tables, queues, blobs and leases. All of Postroom is written against this module.

Three engines keep its promises, chosen by URL (`open_store`): SQLite, PostgreSQL, Azure Storage.
Whatever holds for all of them is said here once:

- **Durable.** When a write returns, it survives the death of this process and of the machine.
- **Whole.** A write that raises has written nothing, with two exceptions that are named where they
  occur: `Queue.put_many` and `StoreUnavailable`. After `StoreUnavailable` the outcome of the last
  write is unknown: read, or do it again. Every use of the store in Postroom can be done again.
- **Checked.** What not every engine could keep is refused by all of them, before anything is sent
  to the engine, with an `InvalidRequest` (see `errors.py` for the tree, `limits.py` for the sizes).
- **Made when needed.** Tables, queues and containers come into being with the first write. Reading
  what is not there yet finds nothing; it is no error.
- **Many at once.** Any number of tasks, processes and (but for SQLite) machines may use one store.
  One `Store` object belongs to one event loop.
- **Cancelled calls** may or may not have taken effect, like a process that dies there.
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
    """A row of a table. The ETag is set by the store: it is empty on an entity to be written."""

    partition: str
    row: str
    properties: Mapping[str, Value]
    etag: str = ""


class KeyRange(msgspec.Struct, frozen=True):
    """Keys from `start` up to `stop` (without it, unless `including_stop`). None is no bound."""

    start: str | None = None
    stop: str | None = None
    including_stop: bool = False

    @classmethod
    def only(cls, key: str) -> KeyRange:
        """The one key."""
        return cls(key, key, including_stop=True)

    @classmethod
    def prefix(cls, prefix: str) -> KeyRange:
        """All keys that begin with `prefix`."""
        return cls(prefix or None, _after_all_with(prefix))

    @classmethod
    def between(cls, first: str, last: str) -> KeyRange:
        """From `first` to `last`, both included."""
        return cls(first, last, including_stop=True)

    @property
    def single(self) -> str | None:
        """The key, if no more than one fits."""
        return self.start if self.including_stop and self.start == self.stop else None


EVERY_KEY = KeyRange()


class Insert(msgspec.Struct, frozen=True):
    """`AlreadyExists` if the row is there."""

    entity: Entity


class Upsert(msgspec.Struct, frozen=True):
    """Insert, or replace whatever is there."""

    entity: Entity


class Replace(msgspec.Struct, frozen=True):
    """Replace all properties. `NotFound`; `StaleETag` if an ETag is given that is not the row's."""

    entity: Entity
    etag: str | None = None


class Merge(msgspec.Struct, frozen=True):
    """Replace the given properties and keep the others. Errors as for `Replace`."""

    entity: Entity
    etag: str | None = None


class Delete(msgspec.Struct, frozen=True):
    """Errors as for `Replace`."""

    partition: str
    row: str
    etag: str | None = None


class InsertMany(msgspec.Struct, frozen=True):
    """Rows that have most of their properties in common: each has its own, which are text, and
    those that are `shared`. Errors as for `Insert`; much cheaper than one `Insert` for each."""

    partition: str
    rows: Mapping[str, Mapping[str, str]]
    shared: Mapping[str, Value] = {}


class DeleteMany(msgspec.Struct, frozen=True):
    """Errors as for `Delete`, without an ETag; much cheaper than one `Delete` for each."""

    partition: str
    rows: Collection[str]


SingleOperation: TypeAlias = Insert | Upsert | Replace | Merge | Delete
Operation: TypeAlias = SingleOperation | InsertMany | DeleteMany


class QueryResult(msgspec.Struct, frozen=True):
    """Entities in key order; `next` continues after the last one and is None at the end."""

    entities: list[Entity]
    next: str | None


class Table(ABC):
    """Entities by partition key and row key. Keys are ordered by code point."""

    name: str

    @abstractmethod
    async def get(self, partition: str, row: str) -> Entity | None:
        """The entity, or None. Sees every write that returned before the call."""

    @abstractmethod
    async def insert(self, entity: Entity) -> str:
        """Write a new row; answers its ETag. `AlreadyExists`."""

    @abstractmethod
    async def upsert(self, entity: Entity) -> str:
        """Write the row whether it is there or not; answers its ETag."""

    @abstractmethod
    async def replace(self, entity: Entity, etag: str | None = None) -> str:
        """Write all properties of an existing row; answers its new ETag.

        `NotFound`; `StaleETag` if `etag` is given and the row has another one now. Of two callers
        with the same ETag exactly one succeeds. `entity.etag` is not looked at.
        """

    @abstractmethod
    async def merge(self, entity: Entity, etag: str | None = None) -> str:
        """Write the given properties of an existing row and keep the others. As `replace`."""

    @abstractmethod
    async def delete(self, partition: str, row: str, etag: str | None = None) -> None:
        """Remove an existing row. As `replace`."""

    @abstractmethod
    async def apply(self, operations: Sequence[Operation]) -> list[str]:
        """Do 1 to 100 operations of one partition, all or none; answers the new ETags in order
        (empty where rows are deleted, and for `InsertMany`).

        Each row of an `InsertMany` or a `DeleteMany` counts as an operation. Each row may occur
        once. The error of the operation that fails is raised with its position in `.operation`;
        nothing is written then. No reader ever sees a part of a batch.
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
        `where`; return the rows that were changed as they are then.

        Each row is changed for itself. If the change makes a row match no more, exactly one of
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
        """Up to `limit` (1 to 1,000) entities whose keys are in both ranges and that match `where`.

        There are fewer than `limit` only if there are no more. To go on, pass `next` as `after`
        with the same ranges and filter: what was written behind that point meanwhile is found, what
        was deleted is not, nothing comes twice. Cost grows with the rows in the key range that are
        looked at, not with the table, if `partitions` is a single key.
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
        """Up to `limit` rows of one partition by their keys, in key order, each as a `kind`: a
        struct that names the properties it wants, none of which are bytes. Others are not looked
        at; the struct's defaults stand for those that a row lacks. Much cheaper than `query`.

        If there are as many as `limit`, further ones may follow the last. `StoreDamaged` if a
        property is not of the type that the struct says.
        """

    @abstractmethod
    async def read_partitions(
        self, kind: type[S], partitions: Collection[str]
    ) -> dict[str, dict[str, S]]:
        """All rows of some small partitions, by their keys, in no promised order. As `read`."""

    @abstractmethod
    def scan(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
    ) -> AsyncIterator[Entity]:
        """All that `query` finds, one answer after the other, in flat memory."""


# --------------------------------------------------------------------------------------------
# Queues


class NewMessage(msgspec.Struct, frozen=True):
    """A queue message to be put.

    It can be received `delay` seconds from now, and no more `ttl` seconds from now (None: for
    ever); one that is leased at that time may be finished or may be gone. Engines may round both up
    to whole seconds. `properties` travel with the body.
    """

    body: str
    delay: float = 0.0
    ttl: float | None = None
    properties: Mapping[str, str] = {}


class QueueMessage(msgspec.Struct, frozen=True):
    """A queue message as it was received or peeked at.

    `dequeue_count` counts the receives, this one included, less those that were released without
    counting. `receipt` proves the lease; it is empty on a message that was only peeked at.
    """

    id: str
    queue: str
    body: str
    properties: Mapping[str, str]
    dequeue_count: int
    enqueued_at: datetime
    receipt: str = ""


class StoredMessage(msgspec.Struct, frozen=True):
    """A queue message with when it becomes ready (a delay or a lease runs out) and when it expires:
    all that is needed to put it somewhere else. Its receipt is empty."""

    message: QueueMessage
    ready_at: datetime
    expires_at: datetime | None


class QueueInfo(msgspec.Struct, frozen=True):
    """`length` counts all messages: ready, delayed and leased. `oldest` is when the message that
    will be received next was put; None if none is ready. Both are approximate: Azure counts an
    expired message until it has swept it out."""

    name: str
    length: int
    oldest: datetime | None


class Queue(ABC):
    """Messages that are received under a lease and deleted when done: at least once each.

    Messages come in the order of their arrival as long as nothing is delayed, released or left to
    run out. A receiver that dies does nothing: its lease runs out, and the message is received by
    another one, with a higher dequeue count.

    A lease that ran out is lost once somebody else has received the message (or deleted it). From
    then on `renew`, `release`, `move` and `delete` with the old receipt raise `LeaseLost` and
    change nothing. Until then they still work.
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
        """Put one message; answers its id. See `NewMessage`."""

    @abstractmethod
    async def put_many(self, messages: Sequence[str | NewMessage]) -> list[str]:
        """Put any number of messages in this order; answers their ids.

        Not atomic: after `StoreUnavailable`, `StoreFull` or the death of this process a part of
        them may be in. A message may be in twice if the engine's answer was lost on the way and the
        put repeated: queues deliver at least once, and nobody may rely on more.
        """

    @abstractmethod
    async def receive(self, limit: int = 1, *, lease: float) -> list[QueueMessage]:
        """Take up to `limit` (1 to 32) ready messages for `lease` seconds (1 to 7 days).

        Nobody else receives them before the lease has run out. Does not wait: an empty answer says
        that nothing was ready. Each message's dequeue count grows with the receive itself, so a
        receiver that dies right after is counted too.
        """

    @abstractmethod
    async def receive_by_id(self, identity: str, *, lease: float) -> QueueMessage | None:
        """Take this one message, if it is in this queue and ready; otherwise None. As `receive`.

        Azure cannot ask for one: up to a thousand ready messages are received on the way and given
        back uncounted, in another order.
        """

    @abstractmethod
    async def renew(self, message: QueueMessage, *, lease: float) -> QueueMessage:
        """Keep the message for `lease` seconds from now. `LeaseLost`.

        Answers the message with its receipt from now on; the old one may no longer work.
        """

    @abstractmethod
    async def release(
        self, message: QueueMessage, *, delay: float = 0.0, count_attempt: bool = True
    ) -> None:
        """Give the message back before its lease runs out, ready after `delay`. `LeaseLost`.
        The receipt is worth nothing from then on.

        `count_attempt=False` takes this receive out of its dequeue count.
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
        """Give the message to the queue `to` (or back to this one), ready there after `delay`;
        answers its id there. `LeaseLost`. The receipt is worth nothing from then on.

        Its dequeue count is reset, its properties are replaced if some are given; body and
        `enqueued_at` stay. One step on SQLite and PostgreSQL: at every instant the message is in
        exactly one of the two, with the same id and time to live. Azure puts it into the other
        queue first and then deletes it here: a process that dies between the two leaves it in both;
        the id is another one, and a time to live is not taken along.
        """

    @abstractmethod
    async def delete(self, message: QueueMessage) -> None:
        """The message is done: remove it for good. `LeaseLost`."""

    @abstractmethod
    async def peek(self, limit: int = 1) -> list[QueueMessage]:
        """Up to `limit` (1 to 32) ready messages, next first, without changing anything."""

    @abstractmethod
    async def browse(self, limit: int = 100, *, after: str | None = None) -> list[StoredMessage]:
        """Up to `limit` (1 to 1,000) messages, delayed and leased ones too, without changing
        anything: the first ones in the order of arrival, or those behind the id `after`, which may
        be gone by now. Fewer than `limit`: no more follow. `InvalidValue` for what is no id.

        Azure cannot show more than the next 32 that are ready, and nothing behind one that is not
        among them any more.
        """

    @abstractmethod
    def scan(self) -> AsyncIterator[StoredMessage]:
        """Every message, delayed and leased ones too, without changing anything, in flat memory.

        For looking after a store, not for work: it reads the whole queue. Azure shows only what is
        ready: there messages are taken one after the other and given back, uncounted, at the end.
        """

    @abstractmethod
    async def info(self) -> QueueInfo:
        """Approximate length, and since when the next message waits."""

    @abstractmethod
    async def wait(self, timeout: float) -> bool:
        """Wait until a message is ready to be received: True, or False after `timeout` seconds.

        Counts arrivals as well as delays and leases that run out. At once where the engine can
        notify (SQLite, PostgreSQL); by polling with a growing pause where it cannot (Azure). A
        notification that is lost costs a second, never the message.
        """

    @abstractmethod
    async def purge(self) -> None:
        """Remove all messages, leased ones too."""

    @abstractmethod
    async def drop(self) -> None:
        """Remove the queue with all its messages, if it is there."""


# --------------------------------------------------------------------------------------------
# Blobs


class BlobInfo(msgspec.Struct, frozen=True):
    """What is known of a blob without reading it."""

    name: str
    size: int
    etag: str
    modified_at: datetime


class BlobListing(msgspec.Struct, frozen=True):
    """Blobs in the order of their names; `next` continues after the last, None at the end.

    Azure orders characters beyond U+FFFF before those from U+E000 on."""

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
        """Write a blob, whole or not at all; answers its ETag.

        Others see the old content until the last byte is in. With `etag`: `NotFound`, `StaleETag`
        unless it is still the blob's. With `new`: `AlreadyExists` if there is one. If the stream
        raises, the blob stays as it was.
        """

    @abstractmethod
    async def read(self, name: str) -> bytes:
        """All of a blob. `NotFound`."""

    @abstractmethod
    def stream(self, name: str) -> AsyncIterator[bytes]:
        """A blob in pieces, in flat memory. `NotFound`.

        Only ever one version: `StaleETag` if it is replaced or deleted before its end is read.
        """

    @abstractmethod
    async def info(self, name: str) -> BlobInfo | None:
        """Size, ETag and time of the last write, or None."""

    @abstractmethod
    async def list(
        self, prefix: str = "", *, limit: int = 1000, after: str | None = None
    ) -> BlobListing:
        """Up to `limit` (1 to 1,000) blobs whose names begin with `prefix`."""

    @abstractmethod
    async def delete(self, name: str, etag: str | None = None) -> None:
        """Remove a blob. `NotFound`; `StaleETag` as for `put`."""

    @abstractmethod
    async def drop(self) -> None:
        """Remove the container with all its blobs, if it is there."""


# --------------------------------------------------------------------------------------------
# Leases and the store


class Lease(msgspec.Struct, frozen=True):
    """The right to act alone under a name for `seconds`, from when it was acquired or renewed.

    `fencing` is larger than that of every earlier lease of this name: a holder that was suspended
    and comes back late is told by it. `seconds` may be more than was asked for (at Azure, 15).
    """

    name: str
    fencing: int
    seconds: float
    token: str


class StoreInfo(msgspec.Struct, frozen=True):
    """For people: which engine in which version, where (without secrets), which schema version."""

    engine: str
    location: str
    schema_version: int


class Batch(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order`: what `Table.apply` does."""

    table: str
    operations: Sequence[Operation]


class Finish(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order`: what `Queue.delete` does."""

    message: QueueMessage


class Put(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order`: what `Queue.put_many` does."""

    queue: str
    messages: Sequence[NewMessage]


Step: TypeAlias = Batch | Finish | Put


class Server(msgspec.Struct, frozen=True):
    """A database server. `history` changes when a standby is promoted, `started_at` whenever the
    server starts. Both are empty if the server does not tell."""

    history: str = ""
    started_at: str = ""


class Store(ABC):
    """One opened store. `async with` closes it."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """The table of this name: 3 to 63 lower-case letters and digits."""

    @abstractmethod
    def queue(self, name: str) -> Queue:
        """The queue of this name: a path, any printable text up to 255 characters."""

    @abstractmethod
    def container(self, name: str) -> Container:
        """The container of this name: 3 to 63 lower-case letters, digits, single hyphens."""

    @abstractmethod
    async def tables(self) -> list[str]:
        """The names of all tables, in order."""

    @abstractmethod
    async def queues(self) -> list[QueueInfo]:
        """All queues, in the order of their names."""

    @abstractmethod
    async def containers(self) -> list[str]:
        """The names of all containers, in order."""

    async def write_in_order(self, steps: Sequence[Step], *, patience: float = 0.0) -> None:
        """Do one step after the other. The first that fails raises its own error: what came before
        it is done, what comes after it is not.

        A process that dies here has done the steps up to one of them. Where possible, an engine
        does all of them with one wait for the disk, and may wait `patience` seconds for other calls
        to share it.
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
        """Wait until at least one of these queues has a ready message; answers which have.

        None stands for all queues, those included that are made while waiting. Those `besides` are
        not looked at, whatever is in them. Empty after `timeout` seconds. Otherwise as
        `Queue.wait`.
        """

    @abstractmethod
    async def acquire_lease(self, name: str, *, seconds: float) -> Lease | None:
        """Become the one holder for 1 to 60 seconds, or None while there is another one.

        A holder that dies is replaced once its lease has run out.
        """

    @abstractmethod
    async def renew_lease(self, lease: Lease) -> None:
        """Hold it for `lease.seconds` from now. `LeaseLost` if it ran out and another holder took
        it, or it was released."""

    @abstractmethod
    async def release_lease(self, lease: Lease) -> None:
        """Let the next candidate in at once. `LeaseLost` as for `renew_lease`."""

    @property
    def server(self) -> Server:
        """The server that the newest connection reached; always the same without a server."""
        return Server()

    @abstractmethod
    async def info(self) -> StoreInfo:
        """What is behind the URL. Fails if it cannot be reached."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and let go. Calls after this raise `StoreClosed`."""

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
    """The smallest text that is larger than every text with this prefix, if there is one."""
    for end in range(len(prefix), 0, -1):
        successor = ord(prefix[end - 1]) + 1
        if successor == 0xD800:  # surrogates are no characters
            successor = 0xE000
        if successor <= 0x10FFFF:
            return prefix[: end - 1] + chr(successor)
    return None
