"""Moving given-up messages back, from a subqueue or a sender's own dead-letter queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from postroom import clock
from postroom.domain.errors import NoSuch
from postroom.services.queues.attempts import AttemptHistory
from postroom.storage import QueueMessage, Store

LEASE = 60.0

Progress = Callable[[int], None]
NewRound = Callable[[QueueMessage], dict[str, str]]


class RedrivePlan(msgspec.Struct, frozen=True):
    """What to move: from `source` to `home`, at most `rate` messages per second.

    With `origin`, only messages that this queue rejected.
    """

    source: str
    home: str
    origin: str | None = None
    rate: float | None = None
    progress: Progress | None = None


class Redriver:
    def __init__(
        self,
        store: Store,
        history: AttemptHistory,
        properties: NewRound,
        origin_of: Callable[[Mapping[str, str]], str | None],
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._history = history
        self._properties = properties
        self._origin_of = origin_of
        self._now = now

    async def one(self, redrive: RedrivePlan, identity: str) -> int:
        """Move the message with this id. `NoSuch`."""
        message = await self.take(redrive.source, identity)
        if not self._is_wanted(redrive, message):
            await self._store.queue(redrive.source).release(message, count_attempt=False)
            raise NoSuch(f"message in {redrive.source} from {redrive.origin} with the id", identity)
        await self._move_back(message, redrive.home)
        return 1

    async def all(self, redrive: RedrivePlan) -> int:
        """Move the messages that are there now; return how many. Messages that fail again while
        this runs are not moved twice."""
        if redrive.origin is not None:
            return await self._all_from_origin(redrive)
        queue = self._store.queue(redrive.source)
        left = (await queue.info()).length
        pace = _RedriveRate(redrive)
        while left > 0:
            limit = min(left, 32) if redrive.rate is None else 1
            batch = await queue.receive(limit, lease=LEASE)
            if not batch:
                break
            for message in batch:
                await self._move_back(message, redrive.home)
                pace.moved_one()
            left -= len(batch)
            if left > 0:
                await pace.wait()
        return pace.moved

    async def _all_from_origin(self, redrive: RedrivePlan) -> int:
        """Move messages of one origin, and leave the others of a shared queue."""
        queue = self._store.queue(redrive.source)
        wanted = [
            stored.message.id
            async for stored in queue.scan()
            if self._is_wanted(redrive, stored.message)
        ]
        pace = _RedriveRate(redrive)
        for identity in wanted:
            message = await queue.receive_by_id(identity, lease=LEASE)
            if message is not None:
                await self._move_back(message, redrive.home)
                pace.moved_one()
                await pace.wait()
        return pace.moved

    async def take(self, queue: str, identity: str) -> QueueMessage:
        """Lease one message by its id. `NoSuch`."""
        message = await self._store.queue(queue).receive_by_id(identity, lease=LEASE)
        if message is None:
            raise NoSuch(f"message in {queue} (or it is in progress) with the id", identity)
        return message

    def _is_wanted(self, redrive: RedrivePlan, message: QueueMessage) -> bool:
        return redrive.origin is None or self._origin_of(message.properties) == redrive.origin

    async def _move_back(self, message: QueueMessage, home: str) -> None:
        await self._history.add_event(message, f"redriven to {home}", self._now(), to=home)
        queue = self._store.queue(message.queue)
        await queue.move(message, home, properties=self._properties(message))


class _RedriveRate:
    """Counts moved messages, and waits to keep to the rate."""

    def __init__(self, redrive: RedrivePlan) -> None:
        self._redrive = redrive
        self._began = clock.monotonic()
        self.moved = 0

    def moved_one(self) -> None:
        self.moved += 1
        if self._redrive.progress is not None:
            self._redrive.progress(self.moved)

    async def wait(self) -> None:
        rate = self._redrive.rate
        if rate is not None:
            await asyncio.sleep(max(0.0, self._began + self.moved / rate - clock.monotonic()))
