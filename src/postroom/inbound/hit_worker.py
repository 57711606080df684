"""The application of the queue `mail/hits`: judges opens and clicks, and counts them.

An item is held until its hits are a minute old, so that everything that the same visitor did in
that minute is known, then counted and deleted. If the process dies, its items come back: those that
were counted are recognised (`engagement.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import NoSuch
from postroom.domain.messages.hits import HIT_QUEUE, HitBatch, PersonHits
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.results.engagement import Engagement, EngagementRows
from postroom.services.audience.results.hit_counting import HitCounter
from postroom.services.audience.results.personal_hits import PersonalHits
from postroom.services.messages.lifecycle import MessageService
from postroom.services.queues.poison import move_to_poison
from postroom.storage import LeaseLost, QueueMessage, Store, StoreOutage
from postroom.watchdog import Doing

log = logging.getLogger(__name__)

JUDGE_AFTER: Final = 60.0
_AT_ONCE: Final = 32
_MOST_HELD: Final = 2000  # items of up to 400 hits
# How far ripe hits may lie apart before they are counted, in times that hits are held. If a process
# dies, everything that it holds has been attempted once more, and is poison after six attempts.
_MOST_AHEAD: Final = 3.0
_LEASE: Final = 300.0  # of an item, which is held for a minute
_LOOK_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 5.0
_OUTAGE_SECONDS: Final = 1.0
_MOST_ATTEMPTS: Final = 6
_UNFINISHED: Final = (
    f"{_MOST_ATTEMPTS} attempts ended without a result, because their process ended"
)
# A web server that got no reply puts a batch again, at most for this long.
_BATCHES_KEPT: Final = timedelta(minutes=10)


class _Held(msgspec.Struct):
    item: QueueMessage
    batch: HitBatch
    received_at: float
    newest: float
    """When the last of its hits was."""
    sums: dict[MessageRef, Engagement] | None = None
    """What it adds: computed once, because then its visits are known."""
    people: Mapping[MessageRef, Mapping[SubscriberGuid, PersonHits]] = {}


class HitWorker:
    def __init__(
        self,
        store: Store,
        messages: MessageService,
        rows: EngagementRows,
        personal: PersonalHits,
        *,
        judge_after: float = JUDGE_AFTER,
    ) -> None:
        self._queue = store.queue(HIT_QUEUE)
        self._messages = messages
        self._rows = rows
        self._personal = personal
        self._judge_after = judge_after
        self._counter = HitCounter()
        self._held: list[_Held] = []
        self._counted: dict[MessageRef, datetime] = {}
        """Messages whose hits were counted, and since when their batches are to be forgotten."""
        self._iterations = 0

    @property
    def is_busy(self) -> bool:
        """Whether hits wait to be counted."""
        return bool(self._held)

    def doing(self) -> dict[str, Doing]:
        """Return what must make progress now (see `watchdog.py`)."""
        return {"counting hits": Doing(self._iterations, rest=_WAIT_SECONDS)}

    async def run(self, stopping: asyncio.Event) -> None:
        """Count hits until `stopping`; then give back those that are too young."""
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done():
                self._iterations += 1
                try:
                    is_behind = await self._take()
                    await self._count_ripe()
                    if not is_behind:
                        await self._wait(stop)
                except StoreOutage as exc:
                    log.warning("hits wait for the store: %s", exc)
                    await asyncio.wait([stop], timeout=_OUTAGE_SECONDS)
            for held in self._held:
                with suppress(LeaseLost, StoreOutage):
                    await self._queue.release(held.item, count_attempt=False)
        finally:
            stop.cancel()
            await asyncio.gather(stop, return_exceptions=True)

    async def _take(self) -> bool:
        """Receive items; return whether there are more than should be held before they are
        counted."""
        while len(self._held) < _MOST_HELD:
            if self._has_enough(time.time()):
                return True
            items = await self._queue.receive(_AT_ONCE, lease=_LEASE)
            for item in items:
                if item.dequeue_count > _MOST_ATTEMPTS:
                    await move_to_poison(self._queue, item, _UNFINISHED)
                    continue
                try:
                    batch = msgspec.json.decode(item.body, type=HitBatch)
                except msgspec.DecodeError as exc:
                    await move_to_poison(self._queue, item, exc)
                    continue
                self._counter.note(batch)
                newest = max((each.at for each in batch.hits), default=0.0)
                self._held.append(_Held(item, batch, time.time(), newest))
            if len(items) < _AT_ONCE:
                return False
        return False

    def _has_enough(self, now: float) -> bool:
        ripe = [each.newest for each in self._held if self._is_ripe(each, now)]
        return bool(ripe) and max(ripe) - min(ripe) > _MOST_AHEAD * self._judge_after

    async def _count_ripe(self) -> None:
        now = time.time()
        ripe = [each for each in self._held if self._is_ripe(each, now)]
        for held in ripe:
            await self._count(held)
            self._held.remove(held)
            self._iterations += 1
        self._counter.forget(now)
        kept_since = clock.now() - _BATCHES_KEPT
        for ref in [ref for ref, at in self._counted.items() if at < kept_since]:
            await self._rows.forget_batches(ref, kept_since)
            del self._counted[ref]

    def _is_ripe(self, held: _Held, now: float) -> bool:
        # The clock of another machine may be ahead.
        waited = now - held.received_at >= self._judge_after
        return waited or now - held.newest >= self._judge_after

    async def _count(self, held: _Held) -> None:
        item, batch = held.item, held.batch
        try:
            if held.sums is None:
                held.sums = self._counter.sums(batch)
                held.people = self._counter.people(batch)
            for ref, more in held.sums.items():
                with suppress(NoSuch):  # removed in the meantime
                    message = await self._messages.get(ref)
                    if ref in held.people:
                        await self._personal.record(message, held.people[ref])
                    await self._rows.add(ref, batch.id, more)
                    if ref not in self._counted:  # those of processes that have ended
                        await self._rows.forget_batches(ref, clock.now() - _BATCHES_KEPT)
                        self._counted[ref] = clock.now()
            with suppress(LeaseLost):  # taken over, and recognised there
                await self._queue.delete(item)
        except StoreOutage:
            raise
        except Exception as exc:  # one batch must not stop the others
            log.exception("hits could not be counted")
            with suppress(LeaseLost):
                if item.dequeue_count >= _MOST_ATTEMPTS:
                    await move_to_poison(self._queue, item, exc)
                else:
                    await self._queue.release(item, delay=2.0**item.dequeue_count)

    async def _wait(self, stop: asyncio.Task[bool]) -> None:
        if self._held:
            await asyncio.wait([stop], timeout=min(_LOOK_SECONDS, self._judge_after))
            return
        arrival = asyncio.create_task(self._queue.wait(_WAIT_SECONDS))
        try:
            await asyncio.wait([stop, arrival], return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
            await asyncio.gather(arrival, return_exceptions=True)
