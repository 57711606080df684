"""From a message that is due to pages and work items.

A window of up to ten pages at a time:

1. a row for each page is inserted (`messagepage`): who comes second learns it here and stops;
2. the emails of each page are inserted, a page in one batch: all of a page or nothing of it;
3. the work items are put;
4. the message's row says how many pages are certainly queued.

A crash anywhere leaves a window that is done again from its page rows: the emails of a page are
there or not, never in part, and work items are put again with the restart flag. So no page is made
twice, and nobody is left out.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from postroom.domain.errors import Overtaken
from postroom.domain.messages import Message, MessageStatus, check_transition
from postroom.domain.pages import PAGE_SIZE, SEND_QUEUE, WorkItem, page_partition
from postroom.services import records
from postroom.services.messages import MessageService
from postroom.storage import (
    AlreadyExists,
    Entity,
    Insert,
    KeyRange,
    QueryResult,
    StaleETag,
    Store,
    Value,
    eq,
)

_WINDOW = 10 * PAGE_SIZE  # what one query of the store answers

NO_LIST = "the list was deleted before the message was due"
NO_SUBSCRIBER = "the list has no verified subscriber"


class Superseded(Exception):
    """Another scheduler works on this message, or somebody paused or cancelled it."""


class FanOut:
    def __init__(self, store: Store, messages: MessageService) -> None:
        self._lists = store.table(records.LISTS)
        self._emails = store.table(records.MESSAGES)
        self._pages = store.table(records.PAGES)
        self._queue = store.queue(SEND_QUEUE)
        self._messages = messages

    async def begin(self, message: Message) -> Message:
        """Pending → Queuing, with what the list says now."""
        check_transition(message.status, MessageStatus.QUEUING)
        found = await self._lists.get(message.list_name, records.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            message = msgspec.structs.replace(message, reason=NO_LIST)
        else:
            mailing_list = records.list_from(found)
            message = msgspec.structs.replace(
                message,
                from_address=mailing_list.from_address,
                list_description=mailing_list.description,
            )
        return await self._save(
            msgspec.structs.replace(
                message, status=MessageStatus.QUEUING, queued_at=datetime.now(UTC)
            )
        )

    async def run(self, message: Message, goes_on: Callable[[], bool]) -> Message:
        """Queuing → Processing. `Superseded` if it is no longer ours to do."""
        message, last = await self.finish_interrupted(message)
        if message.from_address is not None:  # else there was no list when it was due
            following = asyncio.ensure_future(self._read(message, last))
            try:
                while found := await following:
                    if not goes_on():
                        raise Superseded
                    following = asyncio.ensure_future(self._read(message, found[-1].row))
                    message = await self._queue_window(message, found)
            finally:
                following.cancel()
        if message.queued_pages == 0:
            reason = NO_LIST if message.from_address is None else NO_SUBSCRIBER
            message = msgspec.structs.replace(message, reason=reason)
        return await self._save(msgspec.structs.replace(message, status=MessageStatus.PROCESSING))

    async def finish_interrupted(self, message: Message) -> tuple[Message, str | None]:
        """Bring pages to an end that an interruption left half made; answers the last row read."""
        partition = records.pages_partition(message.day, message.ref)
        start = max(0, message.queued_pages - 1)  # the last finished one knows where to go on
        known = await self._pages.query(
            KeyRange.only(partition), KeyRange(start=records.page_row(start))
        )
        pages = [entity for entity in known.entities if "," not in entity.row]
        if not pages:
            return message, None
        for page in pages:
            if int(page.row) >= message.queued_pages:
                await self._finish_page(message, page)
        message = await self._save(
            msgspec.structs.replace(message, queued_pages=int(pages[-1].row) + 1)
        )
        last = records.read(pages[-1], "LastAddress", str)
        return message, records.EMAIL_PREFIX + last

    async def _finish_page(self, message: Message, page: Entity) -> None:
        number = int(page.row)
        await self._finish_emails(message, number)
        item = WorkItem(message.day, message.ref, number, restarted=True)
        await self._queue.put(str(item))

    async def _finish_emails(self, message: Message, number: int) -> None:
        """Make sure that a page has its emails, and that its row counts them.

        The order of the looks matters: a sender removes the emails before it gives up its claim,
        and gives that up together with recording what became of them.
        """
        partition = page_partition(message.day, message.ref, number)
        written = len((await self._emails.query(KeyRange.only(partition))).entities)
        pages = records.pages_partition(message.day, message.ref)
        if await self._pages.get(pages, records.claim_row(number)) is not None:
            return
        page = await self._pages.get(pages, records.page_row(number))
        if page is None or "Accepted" in page.properties:
            return  # a sender has been here
        if not written:
            found = await self._planned(message, page)
            if found and not await self._insert_emails(message, number, found):
                return  # somebody else did so at the same moment
            written = len(found)
        if written != records.read(page, "Planned", int):
            await self._plan(page, written)

    async def _planned(self, message: Message, page: Entity) -> list[Entity]:
        """Those whom the page was made for, as the list has them now.

        Whoever left meanwhile is not planned any more; whoever came into the page's range of
        addresses meanwhile must not take the place of another one.
        """
        first, last = (records.read(page, f"{end}Address", str) for end in ("First", "Last"))
        marks = records.read(page, "Members", bytes)
        members = {marks[start : start + 4] for start in range(0, len(marks), 4)}
        found = [
            entity
            async for entity in self._lists.scan(
                KeyRange.only(message.list_name),
                KeyRange.between(records.EMAIL_PREFIX + first, records.EMAIL_PREFIX + last),
                where=eq("Verified", True),
            )
            if _may_receive(entity) and _mark(entity) in members
        ]
        return found[:PAGE_SIZE]

    async def _plan(self, page: Entity, planned: int) -> None:
        """Some left the list before their page was written: it holds fewer than it was made for.

        If this is interrupted, the next one finds a page whose emails are not as many as planned.
        """
        for _ in range(10):
            counts = msgspec.structs.replace(records.counts_from(page), planned=planned)
            changed: dict[str, Value] = {"Planned": planned, "Done": counts.pending == 0}
            try:
                await self._pages.merge(Entity(page.partition, page.row, changed), page.etag)
            except StaleETag:
                page = await self._pages.get(page.partition, page.row) or page
                continue
            return
        raise Superseded

    async def _read(self, message: Message, after: str | None) -> list[Entity]:
        """The next verified subscribers behind a row, in the order of their addresses."""
        # No key contains a control character: this is the first text behind the row.
        start = records.EMAIL_PREFIX if after is None else after + "\x01"
        while True:
            result: QueryResult = await self._lists.query(
                KeyRange.only(message.list_name),
                KeyRange(start, KeyRange.prefix(records.EMAIL_PREFIX).stop),
                where=eq("Verified", True),
                limit=_WINDOW,
            )
            found = [entity for entity in result.entities if _may_receive(entity)]
            if found or result.next is None:
                return found
            start = result.entities[-1].row + "\x01"

    async def _queue_window(self, message: Message, found: list[Entity]) -> Message:
        numbers = range(message.queued_pages, message.queued_pages + -(-len(found) // PAGE_SIZE))
        parts = [found[start : start + PAGE_SIZE] for start in range(0, len(found), PAGE_SIZE)]
        pages = records.pages_partition(message.day, message.ref)
        try:
            await self._pages.apply(
                [
                    Insert(Entity(pages, records.page_row(number), _page_properties(part)))
                    for number, part in zip(numbers, parts, strict=True)
                ]
            )
        except AlreadyExists as exc:
            raise Superseded from exc
        await asyncio.gather(
            *(
                self._insert_emails(message, number, part)
                for number, part in zip(numbers, parts, strict=True)
            )
        )
        await self._queue.put_many(
            [str(WorkItem(message.day, message.ref, number)) for number in numbers]
        )
        return await self._save(
            msgspec.structs.replace(message, queued_pages=message.queued_pages + len(parts))
        )

    async def _insert_emails(self, message: Message, number: int, found: list[Entity]) -> bool:
        """Answers whether they were not there yet."""
        partition = page_partition(message.day, message.ref, number)
        prefix = len(records.EMAIL_PREFIX)
        try:
            await self._emails.apply(
                [
                    Insert(
                        Entity(
                            partition,
                            entity.row[prefix:],
                            {"SubscriberGUID": entity.properties["SubscriberGUID"]},
                        )
                    )
                    for entity in found
                ]
            )
        except AlreadyExists:
            return False  # a page is one batch: if one email is there, all are
        return True

    async def _save(self, message: Message) -> Message:
        """Save progress; `Superseded` if the row was changed by somebody else."""
        try:
            return await self._messages.save(message)
        except Overtaken as exc:
            raise Superseded from exc


def _may_receive(subscriber: Entity) -> bool:
    return not subscriber.properties.get("Blocked")


def _mark(subscriber: Entity) -> bytes:
    """Tells those whom a page was made for from others: wrong once in four thousand million."""
    return zlib.crc32(subscriber.row.encode()).to_bytes(4)


def _page_properties(part: list[Entity]) -> dict[str, Value]:
    return {
        "Planned": len(part),
        "Done": False,
        "FirstAddress": part[0].row.removeprefix(records.EMAIL_PREFIX),
        "LastAddress": part[-1].row.removeprefix(records.EMAIL_PREFIX),
        "Members": b"".join(map(_mark, part)),
    }
