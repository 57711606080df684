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
        if message.reason != NO_LIST:
            following = asyncio.ensure_future(self._read(message, last))
            try:
                while found := await following:
                    if not goes_on():
                        raise Superseded
                    following = asyncio.ensure_future(self._read(message, found[-1].row))
                    message = await self._queue_window(message, found)
            finally:
                following.cancel()
        if message.queued_pages == 0 and not message.reason:
            message = msgspec.structs.replace(message, reason=NO_SUBSCRIBER)
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
        if await self._was_never_written(message, number):
            await self._write_again(message, page)
        item = WorkItem(message.day, message.ref, number, restarted=True)
        await self._queue.put(str(item))

    async def _was_never_written(self, message: Message, number: int) -> bool:
        """Whether a page's emails are still to be made.

        The order of the looks matters: a sender removes the emails before it gives up its claim,
        and gives that up together with saying that the page is done.
        """
        partition = page_partition(message.day, message.ref, number)
        if (await self._emails.query(KeyRange.only(partition), limit=1)).entities:
            return False
        pages = records.pages_partition(message.day, message.ref)
        if await self._pages.get(pages, records.claim_row(number)) is not None:
            return False
        page = await self._pages.get(pages, records.page_row(number))
        return page is not None and not records.read(page, "Done", bool)

    async def _write_again(self, message: Message, page: Entity) -> None:
        """The page's range of addresses as the list has them now, without those who came later.

        Whoever left meanwhile is not planned any more.
        """
        first, last = (records.read(page, f"{end}Address", str) for end in ("First", "Last"))
        result = await self._lists.query(
            KeyRange.only(message.list_name),
            KeyRange.between(records.EMAIL_PREFIX + first, records.EMAIL_PREFIX + last),
            where=eq("Verified", True),
        )
        limit = records.read(page, "Planned", int)
        queued_at = message.queued_at or datetime.now(UTC)
        found = [
            entity
            for entity in result.entities
            if _may_receive(entity) and records.read(entity, "CreatedAt", datetime) <= queued_at
        ][:limit]
        if found:
            await self._insert_emails(message, int(page.row), found)
        await self._pages.merge(
            Entity(page.partition, page.row, {"Planned": len(found), "Done": not found})
        )

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

    async def _insert_emails(self, message: Message, number: int, found: list[Entity]) -> None:
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
            return  # a page is one batch: if one email is there, all are

    async def _save(self, message: Message) -> Message:
        """Save progress; `Superseded` if the row was changed by somebody else."""
        try:
            return await self._messages.save(message)
        except Overtaken as exc:
            raise Superseded from exc


def _may_receive(subscriber: Entity) -> bool:
    return not subscriber.properties.get("Blocked")


def _page_properties(part: list[Entity]) -> dict[str, Value]:
    return {
        "Planned": len(part),
        "Done": False,
        "FirstAddress": part[0].row.removeprefix(records.EMAIL_PREFIX),
        "LastAddress": part[-1].row.removeprefix(records.EMAIL_PREFIX),
    }
