"""Records of messages that were done long ago are removed, if a setting says so.

The entry in the index goes last: what an interruption leaves is found and finished by the next
round.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from postroom.domain.errors import NoSuch
from postroom.domain.messages import Message
from postroom.domain.pages import page_partition
from postroom.domain.refs import MessageRef
from postroom.services import records
from postroom.services.audit import AuditService
from postroom.services.events import EventService
from postroom.services.messages import MessageService
from postroom.services.outcomes import OutcomeService
from postroom.services.turns import now_and_then
from postroom.storage import Delete, KeyRange, NotFound, Store, Table

log = logging.getLogger(__name__)

_EVERY = 3600.0
_BATCH = 100
_MESSAGES_A_ROUND = 100


class Retention:
    def __init__(
        self, store: Store, *, archive: timedelta | None, events: timedelta | None
    ) -> None:
        self._store = store
        self._index = store.table(records.INDEX)
        self._archive = store.table(records.ARCHIVE)
        self._pages = store.table(records.PAGES)
        self._messages = MessageService(store)
        self._outcomes = OutcomeService(store)
        self._events = EventService(store)
        self._audit = AuditService(store)
        self._keep_archive = archive
        self._keep_events = events

    async def run(self, stopping: asyncio.Event) -> None:
        await now_and_then(
            self._store, "retention", self.remove_old, every=_EVERY, stopping=stopping
        )

    async def remove_old(self) -> int:
        """Answers how many messages were removed."""
        await self._audit.forget_old()
        if self._keep_events is not None:
            await self._events.forget_old(self._keep_events)
        if self._keep_archive is None:
            return 0
        before = datetime.now(UTC) - self._keep_archive
        due = KeyRange(stop=records.due_row(before, MessageRef("")))
        removed = 0
        while True:
            found = await self._index.query(
                KeyRange.only(records.DONE), due, limit=_MESSAGES_A_ROUND
            )
            for entry in found.entities:
                await self._remove(entry.row)
                removed += 1
            if not found.entities:
                break
        if removed:
            log.info("%d messages from before %s were removed", removed, f"{before:%Y-%m-%d}")
        return removed

    async def _remove(self, row: str) -> None:
        try:
            message = await self._messages.get(row.rpartition(",")[2])
        except NoSuch:
            await self._messages.forget_done(row)
            return
        await self._remove_emails(message)
        await self._messages.remove_done(message)

    async def _remove_emails(self, message: Message) -> None:
        async for page in self._outcomes.pages(message):
            partition = page_partition(message.day, message.ref, int(page.row))
            found = await self._archive.query(KeyRange.only(partition))
            await self._delete_rows(self._archive, partition, [each.row for each in found.entities])
        partition = records.pages_partition(message.day, message.ref)
        while rows := (await self._pages.query(KeyRange.only(partition), limit=_BATCH)).entities:
            await self._delete_rows(self._pages, partition, [each.row for each in rows])

    async def _delete_rows(self, table: Table, partition: str, rows: list[str]) -> None:
        for start in range(0, len(rows), _BATCH):
            try:
                await table.apply([Delete(partition, row) for row in rows[start : start + _BATCH]])
            except NotFound:
                return  # somebody else is at it
