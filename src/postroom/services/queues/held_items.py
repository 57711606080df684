"""Queue messages that one process works on, one after the other, for as long as it takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from postroom.services.queues.poison import move_to_poison
from postroom.storage import LeaseLost, Queue, QueueMessage, StoreOutage
from postroom.watchdog import end_tasks

log = logging.getLogger(__name__)


class HeldItems:
    """Messages of one queue that were received together. Their leases are renewed, including those
    of messages whose turn has not come yet.

    A lease can still be lost, for instance while the machine is suspended. Then another process
    does the same work, so the work must be repeatable.
    """

    def __init__(self, queue: Queue, items: Iterable[QueueMessage], lease: float) -> None:
        self._queue = queue
        self._lease = lease
        self._held = {each.id: each for each in items}
        self._receipts = asyncio.Lock()

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renew the leases until the block ends."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            await end_tasks([renewing])

    async def delete(self, item: QueueMessage) -> None:
        """Delete a message that is done."""
        await self._end(item, self._queue.delete)

    async def move_to_poison(self, item: QueueMessage, why: object) -> None:
        """Move a message that cannot be processed to the poison queue, with the reason."""
        await self._end(item, lambda held: move_to_poison(self._queue, held, why))

    async def release(self, item: QueueMessage, *, delay: float) -> None:
        """Return a message to the queue, ready after `delay`."""
        await self._end(item, lambda held: self._queue.release(held, delay=delay))

    async def _end(
        self, item: QueueMessage, end: Callable[[QueueMessage], Awaitable[None]]
    ) -> None:
        async with self._receipts:  # a renewal in progress is about to change the receipt
            held = self._held.pop(item.id, item)
            try:
                await end(held)
            except LeaseLost:
                log.info("another process is also working on %s", item.body)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            for each in list(self._held):
                async with self._receipts:
                    await self._renew_one(each)

    async def _renew_one(self, identity: str) -> None:
        held = self._held.get(identity)
        if held is None:  # done in the meantime
            return
        try:
            self._held[identity] = await self._queue.renew(held, lease=self._lease)
        except LeaseLost:
            del self._held[identity]
        except StoreOutage as exc:
            log.info("the lease of %s could not be renewed: %s", held.body, exc)
