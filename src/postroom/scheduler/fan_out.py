"""Fan-out: from a due message to pages and work items.

It proceeds in windows of up to ten pages:

1. insert a row for each page (`messagepage`); a second scheduler fails here and stops;
2. insert the emails of each page in one batch: all of a page or none;
3. put the work items;
4. record in the message's row how many pages are certainly queued.

A crash anywhere leaves a window that is finished from its page rows: the emails of a page are there
or not, never in part, and work items are put again with the restart flag. So no page is created
twice, and nobody is left out.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeAlias, cast

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.errors import Overtaken
from postroom.domain.messages.messages import Message, MessageStatus, with_status
from postroom.domain.messages.pages import PAGE_SIZE, SEND_QUEUE, WorkItem, page_partition
from postroom.errors import PostroomError
from postroom.scheduler.refused import RefusedRecipients
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.optimistic import retry_on_conflict
from postroom.storage import (
    AlreadyExists,
    Entity,
    Insert,
    InsertMany,
    KeyRange,
    Value,
    eq,
)

_WINDOW = 10 * PAGE_SIZE  # the most that one query of the store returns
_PREFIX = len(entities.EMAIL_PREFIX)
_PREFIX_MARK = zlib.crc32(entities.EMAIL_PREFIX.encode())

_Members: TypeAlias = dict[AddressKey, dict[str, str]]
"""Subscribers in the order of their addresses' keys, with the properties of their emails' rows."""

NO_LIST = "the list was deleted before the message was due"
NO_SUBSCRIBER = "the list has no verified subscriber"


class Superseded(PostroomError):
    """Another scheduler works on this message, or it was paused or cancelled."""


class FanOut:
    def __init__(self, services: SchedulerServices) -> None:
        store = services.store
        self._lists = store.table(entities.LISTS)
        self._emails = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._pages = store.table(entities.PAGES)
        self._queue = store.queue(SEND_QUEUE)
        self._messages = services.message_rows
        self._refused = RefusedRecipients(services)

    async def begin(self, message: Message) -> Message:
        """Change Pending to Queuing, and copy what is needed from the list as it is now."""
        found = await self._lists.get(message.list_name, entities.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            message = msgspec.structs.replace(message, reason=NO_LIST)
        else:
            mailing_list = entities.list_from(found)
            message = msgspec.structs.replace(
                message,
                from_address=mailing_list.from_address,
                list_description=mailing_list.description,
                list_language=mailing_list.language,
                list_postal_address=mailing_list.postal_address,
            )
        return await self._save(
            with_status(
                message, MessageStatus.QUEUING, queued_at=datetime.now(UTC), first_keyed_page=0
            )
        )

    async def run(self, message: Message, goes_on: Callable[[], bool]) -> Message:
        """Plan all pages and change Queuing to Processing. `Superseded`."""
        message, last = await self.finish_interrupted(message)
        planned = await self._planned_with_spellings(message)
        if message.from_address is not None:  # else there was no list when it was due
            following = asyncio.ensure_future(self._read(message, last))
            try:
                while found := await following:
                    if not goes_on():
                        raise Superseded
                    following = asyncio.ensure_future(self._read(message, next(reversed(found))))
                    for each in planned.keys() & found.keys():
                        if not await self._is_merged(message, each, planned[each]):
                            del found[each]
                    if found:
                        message = await self._queue_window(message, found)
            finally:
                following.cancel()
        if message.queued_pages == 0:
            reason = NO_LIST if message.from_address is None else NO_SUBSCRIBER
            message = msgspec.structs.replace(message, reason=reason)
        return await self._save(with_status(message, MessageStatus.PROCESSING))

    async def finish_interrupted(self, message: Message) -> tuple[Message, AddressKey | None]:
        """Finish pages that an interruption left incomplete; return the last planned address."""
        partition = entities.pages_partition(message.day, message.ref)
        start = max(0, message.queued_pages - 1)  # the last finished one says where to continue
        known = await self._pages.query(
            KeyRange.only(partition), KeyRange(start=entities.page_row(start))
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
        if int(pages[-1].row) < (message.first_keyed_page or 0):
            return message, None  # earlier pages are in another order: see below
        return message, AddressKey(Address(entities.read(pages[-1], "LastAddress", str)))

    async def _planned_with_spellings(self, message: Message) -> dict[AddressKey, set[str]]:
        """Return the recipients on pages in the order of spellings, with their GUIDs.

        Only a message that was being queued while its store was converted has any: its other pages
        are planned from the start of the list, in the order of keys, without these recipients.
        """
        planned: dict[AddressKey, set[str]] = {}
        for number in range(message.first_keyed_page or 0):
            partition = page_partition(message.day, message.ref, number)
            for table in (self._emails, self._archive):
                rows = await table.read(entities.EmailRow, partition)
                for row, email in rows.items():
                    guids = planned.setdefault(address_key(Address(row)), set())
                    guids.add(email.SubscriberGUID)
        return planned

    async def _is_merged(self, message: Message, key: AddressKey, guids: set[str]) -> bool:
        """Return whether only emails to merged spellings are planned, which senders skip."""
        row = KeyRange.only(entities.email_row(key))
        found = await self._lists.read(entities.SubscriberRow, message.list_name, row)
        return all(guids <= set(each.MergedGUIDs.split(",")) for each in found.values())

    async def _finish_page(self, message: Message, page: Entity) -> None:
        number = int(page.row)
        await self._finish_emails(message, number)
        item = WorkItem(message.day, message.ref, number, restarted=True)
        await self._queue.put(str(item))

    async def _finish_emails(self, message: Message, number: int) -> None:
        """Make sure that a page has its emails, and that its row counts them.

        The order of the reads matters: a sender removes the emails before it gives up its claim,
        and gives that up together with recording their outcomes.
        """
        partition = page_partition(message.day, message.ref, number)
        written = len((await self._emails.query(KeyRange.only(partition))).entities)
        pages = entities.pages_partition(message.day, message.ref)
        if await self._pages.get(pages, entities.claim_row(number)) is not None:
            return
        page = await self._pages.get(pages, entities.page_row(number))
        if page is None or "Accepted" in page.properties:
            return  # a sender has been here
        if not written:
            found = await self._planned(message, page)
            if found and not await self._insert_emails(message, number, found):
                return  # another process did so at the same moment
            written = len(found)
        if written != entities.read(page, "Planned", int):
            await self._plan(page, written)

    async def _planned(self, message: Message, page: Entity) -> _Members:
        """Return the recipients that the page was planned for, as the list has them now.

        Those who left meanwhile are dropped; new subscribers within the page's range of addresses
        must not take their places.
        """
        first, last = (entities.read(page, f"{end}Address", str) for end in ("First", "Last"))
        marks = entities.read(page, "Members", bytes)
        members = {marks[start : start + 4] for start in range(0, len(marks), 4)}
        start, stop = entities.EMAIL_PREFIX + first, entities.EMAIL_PREFIX + last
        planned: _Members = {}
        while True:
            found, following = await self._verified(message, KeyRange.between(start, stop))
            planned |= {each: own for each, own in found.items() if _mark(each) in members}
            if following is None:
                return dict(islice(planned.items(), PAGE_SIZE))
            start = following

    async def _plan(self, page: Entity, planned: int) -> None:
        """Correct the count of a page whose recipients left the list before it was written.

        After an interruption, the next scheduler again finds a page with fewer emails than planned.
        """

        async def change() -> None:
            current = await self._pages.get(page.partition, page.row) or page
            counts = msgspec.structs.replace(entities.counts_from(current), planned=planned)
            changed: dict[str, Value] = {"Planned": planned, "Done": counts.pending == 0}
            await self._pages.merge(Entity(page.partition, page.row, changed), current.etag)

        await retry_on_conflict(change, "page", page.row)

    async def _read(self, message: Message, after: AddressKey | None) -> _Members:
        """Return the next verified subscribers behind an address, in the order of addresses."""
        if message.retry_of is not None:
            return await self._refused.after(message, message.retry_of, after)
        every = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = every.start if after is None else entities.behind(entities.email_row(after))
        while True:
            found, following = await self._verified(message, KeyRange(start, every.stop))
            if found or following is None:
                return found
            start = following

    async def _verified(self, message: Message, within: KeyRange) -> tuple[_Members, str | None]:
        """Return a window of subscribers who may receive the message, and where the next begins."""
        rows = await self._lists.read(
            entities.SubscriberRow,
            message.list_name,
            within,
            where=eq("Verified", True),
            limit=_WINDOW,
        )
        found = {
            AddressKey(Address(row[_PREFIX:])): subscriber.email_properties
            for row, subscriber in rows.items()
            if subscriber.may_receive
        }
        return found, entities.behind(next(reversed(rows))) if len(rows) == _WINDOW else None

    async def _queue_window(self, message: Message, found: _Members) -> Message:
        numbers = range(message.queued_pages, message.queued_pages + -(-len(found) // PAGE_SIZE))
        members = iter(found.items())
        parts = [dict(islice(members, PAGE_SIZE)) for _ in numbers]
        pages = entities.pages_partition(message.day, message.ref)
        try:
            await self._pages.apply(
                [
                    Insert(Entity(pages, entities.page_row(number), _page_properties(part)))
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

    async def _insert_emails(self, message: Message, number: int, found: _Members) -> bool:
        """Insert the emails of a page; return False if they were there already."""
        partition = page_partition(message.day, message.ref, number)
        try:
            await self._emails.apply([InsertMany(partition, cast(Mapping[str, Any], found))])
        except AlreadyExists:
            return False  # a page is one batch: if one email exists, all do
        return True

    async def _save(self, message: Message) -> Message:
        """Save progress. `Superseded` if another process has changed the row."""
        try:
            return await self._messages.save(message)
        except Overtaken as exc:
            raise Superseded from exc


def _mark(address: AddressKey) -> bytes:
    """Return a mark that tells a page's recipients from others: one error in four billion."""
    return zlib.crc32(address.encode(), _PREFIX_MARK).to_bytes(4)


def _page_properties(part: _Members) -> dict[str, Value]:
    addresses = list(part)
    return {
        "Planned": len(part),
        "Done": False,
        "FirstAddress": addresses[0],
        "LastAddress": addresses[-1],
        "Members": b"".join(map(_mark, addresses)),
    }
