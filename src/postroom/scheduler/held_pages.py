"""Pages that wait for a hold have no work item; they get one when the hold is lifted.

When a probe is due, one page of any message gets one: a sender sends a single email of it.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable
from datetime import datetime
from typing import TypeGuard

from postroom import clock
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.messages.sending.holds import (
    HELD,
    Hold,
    HoldKey,
    Holds,
    message_key,
    waiting_of,
)
from postroom.services.messages.sending.page_rows import OWNER, PageSummary
from postroom.storage import Entity, KeyRange, eq

_FRESH_SECONDS = 0.5
_TIDY_SECONDS = 5.0
_PROBE_SECONDS = 10.0  # after which the work item of a probe is put again
_AT_ONCE = 100  # pages: the operations of one batch of the store
_READ_AT_ONCE = 1000


class HeldPages:
    def __init__(self, services: SchedulerServices) -> None:
        self._pages = services.pages
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
        now = clock.now()
        opened = frozenset((hold.key, hold.since) for hold in holds.by_key.values())
        due = [hold for hold in holds.by_key.values() if self._wants_probe(hold, now)]
        if not due and self._seen.get(message.ref) == opened:
            return
        held = await self._held(message)
        await self._put_back(message, [row for row, page in held.items() if _is_free(page, holds)])
        self._seen[message.ref] = opened
        for hold in due:
            rows = [row for row, page in held.items() if hold.key in page.waiting.held_by]
            if rows:
                self._probes[hold.key] = hold.next_probe, clock.monotonic()
                await self._put(message, [random.choice(rows)])  # noqa: S311

    async def forget(self, message: Message) -> None:
        """Forget a finished message, and delete its own hold."""
        self._seen.pop(message.ref, None)
        await self._holds.forget(message_key(message.ref))

    def look_again(self, ref: MessageRef) -> None:
        """Read the pages of a message again at the next look."""
        self._seen.pop(ref, None)

    async def _current(self) -> Holds:
        now = clock.monotonic()
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
        return moment != hold.next_probe or clock.monotonic() - put_at >= _PROBE_SECONDS

    async def _held(self, message: Message) -> dict[str, PageSummary]:
        """Return the held pages of a message by their rows."""
        partition = entities.pages_partition(message.day, message.ref)
        held: dict[str, PageSummary] = {}
        start: str | None = None
        while True:
            found = await self._pages.table.read(
                PageSummary, partition, KeyRange(start=start), where=eq(HELD, True)
            )
            held |= found
            if len(found) < _READ_AT_ONCE:
                return held
            start = entities.key_after(next(reversed(found)))

    async def _put_back(self, message: Message, rows: list[str]) -> None:
        """Put the work items first: a page that is held and queued only costs an extra look. Pages
        that a sender has changed in the meantime stay as they are."""
        partition = entities.pages_partition(message.day, message.ref)
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            found = await asyncio.gather(*(self._pages.table.get(partition, row) for row in some))
            await self._put(message, some)
            await self._pages.unmark([each for each in found if _is_marked(each)], HELD)

    async def _put(self, message: Message, rows: Iterable[str]) -> None:
        await self._queue.put_many(
            [str(WorkItem(message.day, message.ref, int(row), restarted=True)) for row in rows]
        )


def _is_marked(page: Entity | None) -> TypeGuard[Entity]:
    """Return whether a page waits for a hold, and no sender works on it."""
    return page is not None and waiting_of(page).is_held and not page.properties.get(OWNER)


def _is_free(page: PageSummary, holds: Holds) -> bool:
    """Return whether one of the holds that the page waits for is gone."""
    return any(key not in holds for key in page.waiting.held_by)
