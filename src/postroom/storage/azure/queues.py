"""Queues: messages in Azure Queues. Azure does not notify, so waiting means polling."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from postroom.storage import limits
from postroom.storage.azure.connection import Connection
from postroom.storage.azure.encoding import (
    PREFIX,
    Envelope,
    azure_name,
    metadata_of,
    real_name,
    unwrap,
    wrap,
)
from postroom.storage.azure.errors import Refused
from postroom.storage.checked import CheckedQueue
from postroom.storage.contract.queues import MessageToPut, QueueInfo, QueueMessage, StoredMessage
from postroom.storage.errors import LeaseLost

_FOREVER: Final = -1
_LONGEST_TTL: Final = 2**31 - 1
_CALL_SECONDS: Final = 60.0  # enough for the requests of one call
_MOST_RECEIVES: Final = 32
_SCAN_SECONDS: Final = 600.0
T = TypeVar("T")
R = TypeVar("R")

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
"""A compromise between the cost of polling an empty queue and the delay of the first message after
a quiet time. `azure://…?poll=10` sets another."""

_GROWTH: Final = 1.5
CONCURRENCY: Final = 8
"""Simultaneous requests when many queues are polled."""


class AzureQueue(CheckedQueue):
    def __init__(self, name: str, connection: Connection, pace: PollingPace) -> None:
        super().__init__(name)
        self._connection = connection
        self._pace = pace
        self._client = connection.queues.get_queue_client(azure_name(name))

    async def _put(self, messages: Sequence[MessageToPut]) -> list[str]:
        """Put one after the other: simultaneous requests may arrive in any order."""
        identities = [await self._put_one(message) for message in messages]
        self._pace.quicken(self.name)
        return identities

    async def _put_one(self, message: MessageToPut) -> str:
        delay = math.ceil(message.delay)
        ttl = _ttl(message, delay)
        if ttl == 0:
            return str(uuid.uuid4())  # it could never be received
        return await self._put_content(Envelope(message.body, message.properties), delay, ttl)

    async def _put_content(self, envelope: Envelope, delay: int, ttl: int) -> str:
        content = wrap(envelope)
        sent = await self._connection.run(
            lambda: self._client.send_message(content, visibility_timeout=delay, time_to_live=ttl),
            # It may be put twice: queues deliver at least once.
            repeatable=True,
            make=self._make,
        )
        return str(sent.id)

    async def _receive(self, limit: int, lease: float) -> list[QueueMessage]:
        async def receive() -> list[Any]:
            pages: Any = self._client.receive_messages(
                messages_per_page=limit, visibility_timeout=math.ceil(lease)
            ).by_page()
            async for page in pages:
                return [message async for message in page]
            return []

        return [self._received(message) for message in await self._read(receive)]

    async def _receive_by_id(self, identity: str, lease: float) -> QueueMessage | None:
        """Receive until this message is found, and release the others: Azure cannot select one."""
        others: list[QueueMessage] = []
        wanted: QueueMessage | None = None
        try:
            for _ in range(_MOST_RECEIVES):
                batch = await self._receive(limits.RECEIVE_MESSAGES, max(lease, _CALL_SECONDS))
                wanted = next((each for each in batch if each.id == identity), None)
                others += [each for each in batch if each is not wanted]
                if wanted is not None or not batch:
                    break
        finally:
            await gathered(self._give_back, others)
        return None if wanted is None else await self._renew(wanted, lease)

    async def _give_back(self, message: QueueMessage) -> None:
        with suppress(LeaseLost):  # another receiver has it by now
            await self._release(message, 0.0, count_attempt=False)

    async def _renew(self, message: QueueMessage, lease: float) -> QueueMessage:
        uncounted, _ = _opened(message.receipt)
        renewed = await self._update(message, lease)
        return msgspec.structs.replace(message, receipt=_receipt(uncounted, renewed))

    async def _release(self, message: QueueMessage, delay: float, count_attempt: bool) -> None:
        if count_attempt:
            await self._update(message, delay)
        else:
            uncounted, _ = _opened(message.receipt)
            envelope = Envelope(
                message.body, message.properties, uncounted + 1, message.enqueued_at
            )
            await self._update(message, delay, wrap(envelope))
        self._pace.quicken(self.name)

    async def _move(
        self, message: QueueMessage, to: str, delay: float, properties: Mapping[str, str] | None
    ) -> str:
        kept = message.properties if properties is None else properties
        if to == self.name:
            uncounted, _ = _opened(message.receipt)
            content = Envelope(
                message.body, kept, uncounted + message.dequeue_count, message.enqueued_at
            )
            await self._update(message, delay, wrap(content))
            self._pace.quicken(to)
            return message.id
        held = await self._renew(message, _CALL_SECONDS)  # if the lease is lost, nothing is put
        target = AzureQueue(to, self._connection, self._pace)
        content = Envelope(message.body, kept, enqueued_at=message.enqueued_at)
        identity = await target._put_content(content, math.ceil(delay), _FOREVER)
        await self._delete(held)
        self._pace.quicken(to)
        return identity

    async def _delete(self, message: QueueMessage) -> None:
        _, receipt = _opened(message.receipt)
        try:
            await self._connection.run(lambda: self._client.delete_message(message.id, receipt))
        except Refused as refused:
            raise self._lost(message, refused) from refused

    async def _peek(self, limit: int) -> list[QueueMessage]:
        return [
            self._message(message)
            for message in await self._read(lambda: self._client.peek_messages(limit))
        ]

    async def _wait(self, timeout: float) -> bool:
        return bool(await self._pace.until_found(self.name, self._peek_one, timeout))

    async def _peek_one(self) -> list[QueueMessage]:
        return await self._peek(1)

    async def _browse(self, limit: int, after: str | None) -> list[StoredMessage]:
        """Return messages from the next 32: Azure shows no more."""
        found = await self._peek(limits.RECEIVE_MESSAGES)
        if after is not None:
            ids = [each.id for each in found]
            found = found[ids.index(after) + 1 :] if after in ids else []
        now = datetime.now(UTC)
        return [StoredMessage(each, now, None) for each in found[:limit]]

    async def scan(self) -> AsyncIterator[StoredMessage]:
        taken: list[QueueMessage] = []
        try:
            while batch := await self._receive(limits.RECEIVE_MESSAGES, _SCAN_SECONDS):
                taken += batch
                for found in batch:
                    message = msgspec.structs.replace(
                        found, receipt="", dequeue_count=found.dequeue_count - 1
                    )
                    yield StoredMessage(message, datetime.now(UTC), None)
        finally:
            await gathered(self._give_back, taken)

    async def info(self) -> QueueInfo:
        try:
            found = await self._connection.run(self._client.get_queue_properties, repeatable=True)
        except Refused as refused:
            if refused.nothing_there:
                return QueueInfo(self.name, 0, None)
            raise
        ready = await self._peek(1)
        oldest = ready[0].enqueued_at if ready else None
        return QueueInfo(self.name, found.approximate_message_count or 0, oldest)

    async def purge(self) -> None:
        await self._connection.drop(self._client.clear_messages)

    async def drop(self) -> None:
        await self._connection.drop(self._client.delete_queue)

    async def _read(self, call: Any) -> list[Any]:
        try:
            return list(await self._connection.run(call, repeatable=True))
        except Refused as refused:
            if refused.nothing_there:
                return []
            raise

    async def _update(
        self, message: QueueMessage, seconds: float, content: str | None = None
    ) -> str:
        """Hide the message for some seconds from now; return its new receipt."""
        _, receipt = _opened(message.receipt)
        try:
            updated = await self._connection.run(
                lambda: self._client.update_message(
                    message.id,
                    receipt,
                    content=content,
                    visibility_timeout=math.ceil(seconds),
                )
            )
        except Refused as refused:
            raise self._lost(message, refused) from refused
        return str(updated.pop_receipt)

    def _lost(self, message: QueueMessage, refused: Refused) -> Exception:
        if refused.nothing_there or refused.code in (
            "PopReceiptMismatch",
            "InvalidQueryParameterValue",  # not a receipt
        ):
            return self._lease_lost(message)
        return refused

    def _received(self, found: Any) -> QueueMessage:
        uncounted = unwrap(found.content).uncounted
        receipt = _receipt(uncounted, str(found.pop_receipt))
        return msgspec.structs.replace(self._message(found), receipt=receipt)

    def _message(self, found: Any) -> QueueMessage:
        envelope = unwrap(found.content or "")
        return QueueMessage(
            id=str(found.id),
            queue=self.name,
            body=envelope.body,
            properties=envelope.properties,
            dequeue_count=max(0, int(found.dequeue_count or 0) - envelope.uncounted),
            enqueued_at=envelope.enqueued_at or _utc(found.inserted_on),
        )

    async def _make(self) -> None:
        await self._connection.create(
            lambda: self._client.create_queue(metadata=metadata_of(self.name))
        )


async def list_names(connection: Connection) -> list[str]:
    """Return the real names of all our queues."""

    async def read() -> list[str]:
        listed: Any = connection.queues.list_queues(name_starts_with=PREFIX, include_metadata=True)
        names = [real_name(found.name, found.metadata) async for found in listed]
        return sorted(name for name in names if name is not None)

    return await connection.run(read, repeatable=True)


async def read_infos(connection: Connection, pace: PollingPace) -> list[QueueInfo]:
    """Return all queues, sorted by name."""
    names = await list_names(connection)
    return await gathered(lambda name: AzureQueue(name, connection, pace).info(), names)


async def wait_for_messages(
    connection: Connection,
    pace: PollingPace,
    names: frozenset[str] | None,
    excluding: frozenset[str],
    timeout: float,
) -> frozenset[str]:
    """Wait for a ready message in these queues (None: in any); return the queues that have one."""

    async def ready(name: str) -> bool:
        return bool(await AzureQueue(name, connection, pace).peek(1))

    async def look() -> frozenset[str]:
        known = await list_names(connection) if names is None else sorted(names)
        looked_at = [name for name in known if name not in excluding]
        answers = await gathered(ready, looked_at)
        return frozenset(name for name, found in zip(looked_at, answers, strict=True) if found)

    return await pace.until_found(names, look, timeout)


def _ttl(message: MessageToPut, delay: int) -> int:
    """Return whole seconds, more than the delay as Azure demands; 0 if it ends before the delay."""
    if message.ttl is None or message.ttl > _LONGEST_TTL:
        return _FOREVER
    if message.ttl <= message.delay:
        return 0
    return max(math.ceil(message.ttl), delay + 1)


def _receipt(uncounted: int, pop_receipt: str) -> str:
    return f"{uncounted}:{pop_receipt}"


def _opened(receipt: str) -> tuple[int, str]:
    """Split what `_receipt` joined. An invalid receipt is passed on, for Azure to refuse."""
    uncounted, separator, pop_receipt = receipt.partition(":")
    if separator and uncounted.isdecimal():
        return int(uncounted), pop_receipt
    return 0, receipt


def _utc(when: datetime | None) -> datetime:
    return when.astimezone(UTC) if when is not None else datetime.now(UTC)


class PollingPace:
    """The pause between two polls of the same queues: longer after each one without a result."""

    def __init__(self, longest: float = LONGEST_PAUSE) -> None:
        self._longest = longest
        self._pauses: dict[Hashable, float] = {}

    def quicken(self, what: Hashable) -> None:
        """Poll quickly again: a message was found or put, and more may follow soon."""
        self._pauses.pop(what, None)

    def next_pause(self, what: Hashable) -> float:
        pause = self._pauses.get(what, FIRST_PAUSE)
        self._pauses[what] = min(_GROWTH * pause, self._longest)
        return pause

    async def until_found(
        self, what: Hashable, look: Callable[[], Awaitable[T]], timeout: float
    ) -> T:
        """Call `look` until it finds something, or until `timeout`; return its last result."""
        deadline = time.monotonic() + timeout
        while True:
            found = await look()
            if found:
                self.quicken(what)
                return found
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return found
            await asyncio.sleep(min(self.next_pause(what), remaining))


async def gathered(
    call: Callable[[T], Awaitable[R]], arguments: Iterable[T], most: int = CONCURRENCY
) -> list[R]:
    """Return the results of all calls in order, a few calls at a time."""
    places = asyncio.Semaphore(most)

    async def one(argument: T) -> R:
        async with places:
            return await call(argument)

    try:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(one(argument)) for argument in arguments]
    except BaseExceptionGroup as group:
        # One call failed and the others were cancelled: its error is the error.
        raise group.exceptions[0] from None
    return [task.result() for task in started]
