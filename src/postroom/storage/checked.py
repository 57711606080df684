"""What is the same for the queues, containers and leases of all engines (for tables, see
`checked_tables.py`): checks of arguments, metrics, and methods that use others.

Engines derive from these classes and implement the methods that begin with an underscore. These get
checked arguments only.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

import msgspec

from postroom.observability.metrics import STORE_ERRORS, STORE_SECONDS
from postroom.storage import limits
from postroom.storage.contract.blobs import BlobInfo, BlobListing, Container
from postroom.storage.contract.queues import MessageToPut, Queue, QueueMessage, StoredMessage
from postroom.storage.contract.store import Lease, Store
from postroom.storage.errors import InvalidValue, LeaseLost, StoreOutage, TooLarge
from postroom.storage.names import (
    check_blob_name,
    check_container_name,
    check_lease_name,
    check_queue_name,
)
from postroom.storage.values import check_count, check_seconds, check_text

P = ParamSpec("P")
R = TypeVar("R")
Call: TypeAlias = Callable[P, Coroutine[Any, Any, R]]

_SCANNED_AT_ONCE = 500  # queue messages
PIECE_BYTES = 256 * 1024


def measured(operation: str) -> Callable[[Call[P, R]], Call[P, R]]:
    """Time each call and count outages. A refusal such as `AlreadyExists` is not a failure."""

    def decorate(call: Call[P, R]) -> Call[P, R]:
        @wraps(call)
        async def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            try:
                return await call(*args, **kwargs)
            except StoreOutage as exc:
                STORE_ERRORS.add(1, type(exc).__name__)
                raise
            finally:
                STORE_SECONDS.observe(time.perf_counter() - start, operation)

        return timed

    return decorate


class CheckedQueue(Queue):
    """A queue whose engine implements the methods with an underscore."""

    def __init__(self, name: str) -> None:
        self.name = check_queue_name(name)

    @abstractmethod
    async def _put(self, messages: Sequence[MessageToPut]) -> list[str]: ...

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
        return (await self.put_many([MessageToPut(body, delay, ttl, properties or {})]))[0]

    @measured("queue put_many")
    async def put_many(self, messages: Sequence[str | MessageToPut]) -> list[str]:
        new = [MessageToPut(m) if isinstance(m, str) else m for m in messages]
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
        check_message(MessageToPut(message.body, delay, None, kept), limits.MOVED_MESSAGE_BYTES)
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
            raise InvalidValue(f"the message is of queue {message.queue!r}, not of {self.name!r}")
        if not message.receipt:
            raise InvalidValue("the message was only peeked at: receive it to get a lease")
        return message

    def _lease_lost(self, message: QueueMessage) -> LeaseLost:
        return LeaseLost(
            f"message {message.id} of queue {self.name!r} is no longer leased to this receiver"
        )


def check_message(message: MessageToPut, most: int = limits.QUEUE_MESSAGE_BYTES) -> None:
    if not isinstance(message.body, str):
        raise InvalidValue(f"a queue message must be text, not {type(message.body).__name__}")
    check_text("queue message", message.body, most)
    check_seconds("delay", message.delay, 0.0, limits.QUEUE_SECONDS)
    if message.ttl is not None:
        check_seconds("time to live", message.ttl, 1.0)
    if message.properties:
        for name, value in message.properties.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidValue("properties of a queue message must be text")
            check_text("property name of a queue message", name)
            check_text(f"property {name!r} of a queue message", value)
        size = len(message.body.encode()) + len(msgspec.json.encode(message.properties))
        if size > most:
            raise TooLarge(
                f"a queue message with properties must be at most {most:,} bytes, not {size:,}"
            )


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
            raise InvalidValue("new and etag must not be given together")
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

    def _described(self, name: str) -> str:
        """Return a blob as errors name it."""
        return f"blob {self.name}/{name}"


async def in_pieces(stream: AsyncIterable[bytes], size: int = PIECE_BYTES) -> AsyncIterator[bytes]:
    """Yield the same bytes in pieces of `size`, the last of which may be shorter."""
    gathered = bytearray()
    async for data in stream:
        if not isinstance(data, bytes):
            raise InvalidValue(f"a blob must consist of bytes, not {type(data).__name__}")
        for start in range(0, len(data), size):
            gathered += data[start : start + size]
            while len(gathered) >= size:
                yield bytes(gathered[:size])
                del gathered[:size]
    if gathered:
        yield bytes(gathered)


async def _one_piece(data: bytes) -> AsyncIterator[bytes]:
    yield data


class CheckedStore(Store):
    """A store whose engine implements the methods with an underscore."""

    @abstractmethod
    async def _wait_for_messages(
        self, queues: frozenset[str] | None, excluding: frozenset[str], timeout: float
    ) -> frozenset[str]: ...

    @abstractmethod
    async def _acquire_lease(self, name: str, seconds: float) -> Lease | None: ...

    async def wait_for_messages(
        self,
        queues: Collection[str] | None = None,
        *,
        excluding: Collection[str] = (),
        timeout: float,
    ) -> frozenset[str]:
        check_seconds("timeout", timeout, 0.0)
        without = frozenset(excluding)
        names = None if queues is None else frozenset(check_queue_name(name) for name in queues)
        return await self._wait_for_messages(
            names if names is None else names - without, without, timeout
        )

    async def acquire_lease(self, name: str, *, seconds: float) -> Lease | None:
        check_lease_name(name)
        check_seconds("lease", seconds, 1.0, limits.LEASE_SECONDS)
        return await self._acquire_lease(name, seconds)
