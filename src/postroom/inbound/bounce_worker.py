"""The application of the queue `mail/bounce`: records what came in, one after the other.

An item is deleted when its bounce is recorded. One that fails is tried again with growing delays,
and is then moved to `mail/bounce;poison`: its mail stays stored.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE
from postroom.services.audience.bounces.intake import RECIPIENT, SOURCE
from postroom.services.audience.bounces.processing import BounceProcessing, parse_source
from postroom.services.queues.poison import move_to_poison
from postroom.storage import LeaseLost, QueueMessage, Store, StoreOutage
from postroom.watchdog import Doing

log = logging.getLogger(__name__)

_AT_ONCE = 16
_MOST_ATTEMPTS = 6
_WAIT_SECONDS = 5.0
_OUTAGE_SECONDS = 1.0
_FIRST_DELAY = 2.0


class BounceWorker:
    def __init__(self, store: Store, processing: BounceProcessing, *, lease: float) -> None:
        self._queue = store.queue(BOUNCE_QUEUE)
        self._processing = processing
        self._lease = lease
        self._iterations = 0
        self._is_busy = False

    @property
    def is_busy(self) -> bool:
        """Whether bounces are being recorded."""
        return self._is_busy

    def doing(self) -> dict[str, Doing]:
        """Return what must make progress now (see `watchdog.py`)."""
        return {"recording bounces": Doing(self._iterations, rest=_WAIT_SECONDS)}

    async def run(self, stopping: asyncio.Event) -> None:
        """Record bounces until `stopping`."""
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done():
                self._iterations += 1
                try:
                    await self._take(stop)
                except StoreOutage as exc:
                    log.warning("bounces wait for the store: %s", exc)
                    await asyncio.wait([stop], timeout=_OUTAGE_SECONDS)
        finally:
            stop.cancel()
            await asyncio.gather(stop, return_exceptions=True)

    async def _take(self, stop: asyncio.Task[bool]) -> None:
        items = await self._queue.receive(_AT_ONCE, lease=self._lease)
        self._is_busy = bool(items)
        for item in items:
            if stop.done():
                await self._queue.release(item, count_attempt=False)
                continue
            self._iterations += 1
            with suppress(LeaseLost):  # another worker has taken it over
                await self._work_on(item)
        self._is_busy = False
        if not items:
            await self._wait_for_work(stop)

    async def _work_on(self, item: QueueMessage) -> None:
        try:
            source = parse_source(item.properties.get(SOURCE, ""))
            recipient = item.properties.get(RECIPIENT, "")
            await self._processing.process(item.body, source, recipient, item.enqueued_at)
        except Invalid as exc:
            await move_to_poison(self._queue, item, exc)
        except (StoreOutage, LeaseLost):
            raise
        except Exception as exc:  # one email must not stop the others
            log.exception("a bounce could not be recorded: %s", item.body)
            if item.dequeue_count >= _MOST_ATTEMPTS:
                await move_to_poison(self._queue, item, exc)
            else:
                delay = _FIRST_DELAY * 4 ** (item.dequeue_count - 1)
                await self._queue.release(item, delay=delay)
        else:
            await self._queue.delete(item)

    async def _wait_for_work(self, stop: asyncio.Task[bool]) -> None:
        arrival = asyncio.create_task(self._queue.wait(_WAIT_SECONDS))
        try:
            await asyncio.wait([stop, arrival], return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
            await asyncio.gather(arrival, return_exceptions=True)
