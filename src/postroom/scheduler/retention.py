"""Retention: removes old records if a setting says so (messages with their emails, events,
histories of deleted queue messages, and bounces that belong to no email), and always the leftovers
of interrupted uploads and erasures.

The age of a message counts from its end: it may have been sent long after its scheduled time. The
index entry goes last, so that the next round finds and finishes what an interruption left.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from postroom import clock
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.ab_tests import ENDED
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.concurrency import run_periodically
from postroom.services.messages.sending.page_rows import PageSummary
from postroom.services.queues.attempts import AttemptRetention
from postroom.services.row_ranges import remove_rows
from postroom.storage import Entity, KeyRange

log = logging.getLogger(__name__)

_EVERY = 3600.0


class Retention:
    def __init__(
        self,
        services: SchedulerServices,
        *,
        archive: timedelta | None,
        events: timedelta | None,
    ) -> None:
        self._store = store = services.store
        self._index = store.table(entities.INDEX)
        self._pages = store.table(entities.PAGES)
        self._messages = services.messages
        self._message_rows = services.message_rows
        self._events = services.events
        self._histories = AttemptRetention(store)
        self._audit = services.audit
        self._pictures = services.pictures
        self._personal_data = services.personal_data
        self._results = services.results
        self._ab_tests = services.ab_tests
        self._bounces = services.bounce_intake
        self._keep_archive = archive
        self._keep_events = events

    async def run(self, stopping: asyncio.Event) -> None:
        await run_periodically(
            self._store, "retention", lambda _: self.remove_old(), every=_EVERY, stopping=stopping
        )

    async def remove_old(self) -> int:
        """Remove old records; return how many messages were removed."""
        await self._audit.forget_old()
        await self._pictures.clean_up()
        await self._personal_data.finish()
        if self._keep_events is not None:
            await self._events.forget_old(self._keep_events)
            await self._histories.remove_unchanged_for(self._keep_events)
            await self._bounces.forget_old(self._keep_events)
        if self._keep_archive is None:
            return 0
        before = clock.now() - self._keep_archive
        # No message is completed before it is due, and a cancelled one stays at least until then.
        due = KeyRange(stop=entities.due_row(before, MessageRef("")))
        removed = 0
        async for entry in self._index.scan(KeyRange.only(entities.DONE), due):
            removed += await self._remove_if_old(entry, before)
        if removed:
            log.info("removed %d messages from before %s", removed, f"{before:%Y-%m-%d}")
        return removed

    async def _remove_if_old(self, entry: Entity, before: datetime) -> bool:
        ended = entities.read_optional(entry, entities.ENDED_AT, datetime)
        if ended is not None and ended >= before:
            return False
        try:
            message = await self._messages.get(entry.row.rpartition(",")[2])
        except NoSuch:
            await self._message_rows.forget_done(entry.row)
            return True
        if ended is None and (message.completed_at or message.created_at) >= before:
            return False  # archived by an earlier version, which did not note it in the index
        test = await self._ab_tests.rows.of(message.ref)
        if test is not None and test.state not in ENDED:
            return False  # the rest must go to those who are not on its pages
        await self._remove_pages(message)
        await self._results.forget(message)
        await self._ab_tests.rows.forget(message.ref)
        await self._messages.remove_done(message)
        return True

    async def _remove_pages(self, message: Message) -> None:
        partition = entities.pages_partition(message.day, message.ref)
        while rows := await self._pages.read(PageSummary, partition):
            await remove_rows(self._pages, partition, list(rows))
