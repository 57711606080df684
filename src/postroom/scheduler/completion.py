"""Completion: archives a message once all its pages are done, and resumes pages that a pause has
parked, that waited for a hold, or whose work items were lost."""

from __future__ import annotations

import logging
from datetime import timedelta

import msgspec

from postroom import clock
from postroom.domain.errors import Overtaken
from postroom.domain.messages.messages import Message, MessageStatus, with_status
from postroom.domain.messages.pages import SEND_QUEUE, SUPPRESS_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.held_pages import HeldPages
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.audience.suppression.suppression_items import count_bounces, record_refused
from postroom.services.events import Severity
from postroom.services.messages.sending.page_rows import (
    DONE,
    OWNER,
    PARKED,
    UNTIL,
    PageSummary,
    page_row,
)
from postroom.storage import KeyRange, eq, lt

_PARKED_CHECK_SECONDS = 30.0
_LOST_AFTER = timedelta(minutes=1)
"""How long a page that waits for nothing may be left alone before its work item counts as lost."""
_AT_ONCE = 100  # pages


log = logging.getLogger(__name__)


class Completion:
    def __init__(self, services: SchedulerServices) -> None:
        self._pages = services.pages
        self._queue = services.store.queue(SEND_QUEUE)
        self._suppress_queue = services.store.queue(SUPPRESS_QUEUE)
        self._messages = services.message_rows
        self._outcomes = services.outcomes
        self._events = services.events
        self._held = HeldPages(services)
        # Pages below are done. Checks start here, so they cost little however many pages there are.
        self._first_open: dict[MessageRef, int] = {}
        self._look_for_parked_at: dict[MessageRef, float] = {}
        self._idle: dict[MessageRef, set[str]] = {}
        """The pages for which there seemed to be no work item when they were last looked at."""
        self.steps = 0
        """Grows with every step, for the watchdog."""

    async def check(self, message: Message) -> bool:
        """Archive the message if no email is pending or in doubt; return whether that was done."""
        if await self.tend(message):
            return False
        if message.status is MessageStatus.PROCESSING:
            counts = await self._outcomes.counts(message)
            if counts.pending or counts.in_doubt:
                # In doubt: an administrator has to decide, which may reopen an earlier page.
                self.look_again(message.ref)
                return False
            message = with_status(
                message,
                MessageStatus.COMPLETED,
                completed_at=clock.now(),
                counts=counts,
            )
            try:
                message = await self._messages.save(message)
            except Overtaken:
                return False
        elif message.counts is None:
            message = msgspec.structs.replace(message, counts=await self._outcomes.counts(message))
        await self._record_end(message)
        # Before it is archived: after an interruption this is done twice, which is harmless.
        await self._suppress_queue.put_many(_left_to_do(message))
        await self._held.forget(message)
        await self._messages.archive(message)
        self._first_open.pop(message.ref, None)
        self._look_for_parked_at.pop(message.ref, None)
        self._idle.pop(message.ref, None)
        return True

    async def tend(self, message: Message) -> bool:
        """Put back pages that were parked, that waited for a hold, or that have no work item;
        return whether a page is open."""
        self.steps += 1
        is_open, is_parked = await self._first_open_page(message)
        if is_open:
            if is_parked:  # by a sender that had not noticed the resumption yet
                await self._put_back_parked(message, limit=1)
            await self._put_back_others(message)
            await self._held.look(message)
        return is_open

    def look_again(self, ref: MessageRef) -> None:
        """Look at all pages of a message again: an earlier one may have been reopened."""
        self._first_open.pop(ref, None)

    def reached(self, ref: MessageRef) -> int:
        """Return the first page that was not done when `check` last looked."""
        return self._first_open.get(ref, 0)

    async def _record_end(self, message: Message) -> None:
        """Record the event before the message is archived: after an interruption it is recorded
        twice rather than never."""
        counts = message.counts
        if message.status is MessageStatus.COMPLETED and counts is not None:
            mostly_refused = counts.refused > counts.accepted
            parts = ", ".join(
                f"{count:,} {word}"
                for word, count in (
                    ("accepted", counts.accepted),
                    ("refused", counts.refused),
                    ("skipped", counts.suppressed),
                )
                if count
            )
            await self._events.record(
                "scheduler",
                f"message “{message.subject}” to {message.list_name} sent:"
                f" {parts or 'no recipients'}",
                severity=Severity.WARNING if mostly_refused else Severity.INFO,
                subject=f"message:{message.ref}",
            )

    async def put_back(self, message: Message) -> None:
        """Put work items for all pages that were parked while the message was paused.

        For a cancelled message, put them for all open pages: some wait hours for their next
        attempt, and must end now.
        """
        self._first_open.pop(message.ref, None)
        self._held.look_again(message.ref)
        if message.status is MessageStatus.CANCELLED:
            pages = self._pages.summaries(message)
            numbers = [number async for number, page in pages if page.counts.pending]
            await self._put(message, numbers)
        else:
            while await self._put_back_parked(message):
                pass

    async def _put_back_others(self, message: Message) -> None:
        """Put back pages that are parked after the first open one, which may wait days for its last
        email. This reads all pages, so it is done only every 30 seconds."""
        now = clock.monotonic()
        if now < self._look_for_parked_at.get(message.ref, 0.0):
            return
        self._look_for_parked_at[message.ref] = now + _PARKED_CHECK_SECONDS
        self._held.look_again(message.ref)
        await self._put_back_parked(message)
        await self._put_back_lost(message)

    async def _put_back_parked(self, message: Message, limit: int = _AT_ONCE) -> int:
        """Put work items for some parked pages; return for how many.

        The items come first: a page that is parked and queued only costs an extra look. If a sender
        has changed a page since it was read, it stays as it is; if it was parked again, it is put
        back again.
        """
        found = await self._pages.marked(
            message, eq(PARKED, True) & eq(OWNER, ""), self.reached(message.ref), limit
        )
        if found:
            await self._put(message, [int(each.row) for each in found])
            await self._pages.unmark(found, PARKED)
        return len(found)

    async def _put_back_lost(self, message: Message) -> None:
        """Put work items for open pages that have none, for example because the queue was purged.

        The queue cannot be searched. But if it has nothing to receive, and twice in a row nobody
        works on a page that waits for nothing, then its item is lost. If it is only late, a second
        one costs an extra look.
        """
        idle = await self._idle_pages(message)
        lost = sorted(idle & self._idle.get(message.ref, set()))
        self._idle[message.ref] = idle.difference(lost)
        if lost:
            log.warning("message %s: %d pages had no work item", message.ref, len(lost))
            await self._put(message, [int(row) for row in lost])

    async def _idle_pages(self, message: Message) -> set[str]:
        if (await self._queue.info()).oldest is not None:
            return set()
        before = clock.now() - _LOST_AFTER
        found = await self._pages.table.read(
            PageSummary,
            entities.pages_partition(message.day, message.ref),
            KeyRange(start=page_row(self.reached(message.ref))),
            where=eq(DONE, False) & eq(PARKED, False) & lt(UNTIL, before),
            limit=_AT_ONCE,
        )
        return {
            row
            for row, page in found.items()
            if not page.held and (page.waits_until is None or page.waits_until < before)
        }

    async def _put(self, message: Message, numbers: list[int]) -> None:
        self.steps += 1
        await self._queue.put_many(
            [str(WorkItem(message.day, message.ref, number, restarted=True)) for number in numbers]
        )

    async def _first_open_page(self, message: Message) -> tuple[bool, bool]:
        """Return whether a page is not done, and whether the first such page is parked."""
        found = await self._pages.table.read(
            PageSummary,
            entities.pages_partition(message.day, message.ref),
            KeyRange(start=page_row(self._first_open.get(message.ref, 0))),
            where=eq(DONE, False),
            limit=1,
        )
        for row, page in found.items():
            self._first_open[message.ref] = int(row)
            return True, page.parked
        return False, False


def _left_to_do(message: Message) -> list[str]:
    """Return the work items about bounces and refusals of a message that is done."""
    if message.counts is None or not message.counts.planned:
        return []
    refused = [record_refused(message.ref)] if message.counts.refused else []
    return [*refused, count_bounces(message.ref)]
