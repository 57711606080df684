"""Pages that wait for a hold have no work item; they get one when the hold is lifted.

When a probe is due, one page of any message gets one: a sender sends a single email of it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.messages.holds import Hold, HoldKey, Holds, message_key
from postroom.services.messages.waiting_reasons import HELD, held_by
from postroom.storage import Conflict, Entity, KeyRange, Merge, eq

_FRESH_SECONDS = 0.5
_TIDY_SECONDS = 5.0
_PROBE_SECONDS = 10.0  # after which the work item of a probe is put again
_AT_ONCE = 100  # pages: the operations of one batch of the store


class HeldPages:
    def __init__(self, services: SchedulerServices) -> None:
        self._pages = services.store.table(entities.PAGES)
        self._queue = services.store.queue(SEND_QUEUE)
        self._holds = services.holds
        self._known = Holds()
        self._read_at = -math.inf
        self._tidied_at = -math.inf
        self._seen: dict[MessageRef, frozenset[tuple[HoldKey, datetime]]] = {}
        """The holds that were open when the pages of a message were last read."""
        self._probes: dict[HoldKey, tuple[datetime, float]] = {}
        """For which probe time a work item was put, and when."""

    async def look(self, message: Message) -> None:
        """Put work items for the pages of a message whose hold was lifted, and for probes."""
        holds = await self._current()
        now = datetime.now(UTC)
        opened = frozenset((hold.key, hold.since) for hold in holds.by_key.values())
        due = [hold for hold in holds.by_key.values() if self._wants_probe(hold, now)]
        if not due and self._seen.get(message.ref) == opened:
            return
        held = await self._held(message)
        await self._put_back(message, [page for page in held if _is_free(page, holds)])
        self._seen[message.ref] = opened
        for hold in due:
            pages = [page for page in held if hold.key in held_by(page)]
            if pages:
                self._probes[hold.key] = hold.next_probe, time.monotonic()
                await self._put(message, [random.choice(pages)])  # noqa: S311

    async def forget(self, message: Message) -> None:
        """Forget a finished message, and delete its own hold."""
        self._seen.pop(message.ref, None)
        await self._holds.forget(message_key(message.ref))

    def look_again(self, ref: MessageRef) -> None:
        """Read the pages of a message again at the next look."""
        self._seen.pop(ref, None)

    async def _current(self) -> Holds:
        now = time.monotonic()
        if now - self._tidied_at >= _TIDY_SECONDS:
            self._tidied_at = now
            await self._holds.tidy()
        if now - self._read_at >= _FRESH_SECONDS:
            self._known, self._read_at = await self._holds.open_holds(), now
        return self._known

    def _wants_probe(self, hold: Hold, now: datetime) -> bool:
        if not hold.is_due(now):
            return False
        moment, put_at = self._probes.get(hold.key, (None, -math.inf))
        return moment != hold.next_probe or time.monotonic() - put_at >= _PROBE_SECONDS

    async def _held(self, message: Message) -> list[Entity]:
        partition = KeyRange.only(entities.pages_partition(message.day, message.ref))
        return [page async for page in self._pages.scan(partition, where=eq(HELD, True))]

    async def _put_back(self, message: Message, pages: list[Entity]) -> None:
        """Put the work items first: a page that is held and queued only costs an extra look. Pages
        that a sender has changed meanwhile stay as they are."""
        for start in range(0, len(pages), _AT_ONCE):
            some = pages[start : start + _AT_ONCE]
            await self._put(message, some)
            marks = [
                Merge(Entity(each.partition, each.row, {HELD: False}), each.etag) for each in some
            ]
            try:
                await self._pages.apply(marks)
            except Conflict:
                for mark in marks:
                    try:
                        await self._pages.apply([mark])
                    except Conflict:
                        continue

    async def _put(self, message: Message, pages: Iterable[Entity]) -> None:
        await self._queue.put_many(
            [
                str(WorkItem(message.day, message.ref, int(page.row), restarted=True))
                for page in pages
            ]
        )


def _is_free(page: Entity, holds: Holds) -> bool:
    """Return whether one of the holds that the page waits for is gone."""
    return any(key not in holds for key in held_by(page))
