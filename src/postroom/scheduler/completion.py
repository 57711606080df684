"""Completion: archives a message once all its pages are done, and resumes pages that a pause has
parked or that waited for a hold."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from postroom.domain.errors import Overtaken
from postroom.domain.messages.messages import Message, MessageStatus, with_status
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.held_pages import HeldPages
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.events import Severity
from postroom.storage import Entity, KeyRange, StaleETag, eq

_PARKED_CHECK_SECONDS = 30.0


class Completion:
    def __init__(self, services: SchedulerServices) -> None:
        self._pages = services.store.table(entities.PAGES)
        self._queue = services.store.queue(SEND_QUEUE)
        self._messages = services.message_rows
        self._outcomes = services.outcomes
        self._events = services.events
        self._held = HeldPages(services)
        # Pages below are done. Checks start here, so they cost little however many pages there are.
        self._first_open: dict[MessageRef, int] = {}
        self._look_for_parked_at: dict[MessageRef, float] = {}
        self.steps = 0
        """Grows with every step, for the watchdog."""

    async def check(self, message: Message) -> bool:
        """Archive the message if no email is pending or in doubt; return whether that was done."""
        self.steps += 1
        page = await self._first_open_page(message)
        if page is not None:
            # Parked by a sender that had not noticed the resumption yet.
            if page.properties.get("Parked") is True:
                await self._put_back(message, page)
            await self._put_back_others(message)
            await self._held.look(message)
            return False
        if message.status is MessageStatus.PROCESSING:
            counts = await self._outcomes.counts(message)
            if counts.pending or counts.in_doubt:
                # In doubt: an administrator has to decide, which may reopen an earlier page.
                self._first_open.pop(message.ref, None)
                return False
            message = with_status(
                message,
                MessageStatus.COMPLETED,
                completed_at=datetime.now(UTC),
                counts=counts,
            )
            try:
                message = await self._messages.save(message)
            except Overtaken:
                return False
        elif message.counts is None:
            message = msgspec.structs.replace(message, counts=await self._outcomes.counts(message))
        await self._record_end(message)
        await self._held.forget(message)
        await self._messages.archive(message)
        self._first_open.pop(message.ref, None)
        self._look_for_parked_at.pop(message.ref, None)
        return True

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
                    ("suppressed", counts.suppressed),
                )
                if count
            )
            await self._events.record(
                "scheduler",
                f"the message {message.subject!r} to {message.list_name} is completed:"
                f" {parts or 'it had no recipients'}",
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
        cancelled = message.status is MessageStatus.CANCELLED
        async for page in self._pages.scan(
            KeyRange.only(entities.pages_partition(message.day, message.ref)),
            where=eq("Done", False) if cancelled else eq("Parked", True),
        ):
            await self._put_back(message, page)

    async def _put_back_others(self, message: Message) -> None:
        """Put back pages parked behind the first open one, which may wait days for its last email.
        This reads all pages, so it is done only every 30 seconds."""
        now = time.monotonic()
        if now < self._look_for_parked_at.get(message.ref, 0.0):
            return
        self._look_for_parked_at[message.ref] = now + _PARKED_CHECK_SECONDS
        self._held.look_again(message.ref)
        found = await self._pages.query(
            KeyRange.only(entities.pages_partition(message.day, message.ref)),
            KeyRange(start=entities.page_row(self.reached(message.ref))),
            where=eq("Parked", True),
            limit=10,
        )
        for page in found.entities:
            await self._put_back(message, page)

    async def _put_back(self, message: Message, page: Entity) -> None:
        """Put the work item first: a page that is parked and queued only costs an extra look.

        If a sender has changed the page since it was read, it stays as it is; if it was parked
        again, it is put back again.
        """
        self.steps += 1
        item = WorkItem(message.day, message.ref, int(page.row), restarted=True)
        await self._queue.put(str(item))
        try:
            await self._pages.merge(Entity(page.partition, page.row, {"Parked": False}), page.etag)
        except StaleETag:
            return

    async def _first_open_page(self, message: Message) -> Entity | None:
        start = self._first_open.get(message.ref, 0)
        result = await self._pages.query(
            KeyRange.only(entities.pages_partition(message.day, message.ref)),
            KeyRange(start=entities.page_row(start)),
            where=eq("Done", False),
            limit=1,
        )
        if not result.entities:
            return None
        self._first_open[message.ref] = int(result.entities[0].row)
        return result.entities[0]
