"""The contract of queues: messages that are received under a lease."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

import msgspec


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
        PostgreSQL notify immediately; Azure is polled with growing pauses. A lost notification
        costs a second, never the message.
        """

    @abstractmethod
    async def purge(self) -> None:
        """Delete all messages, including leased ones."""

    @abstractmethod
    async def drop(self) -> None:
        """Delete the queue with all its messages, if it exists."""
