"""Fan-out: from a due message to pages and work items.

It proceeds in windows of about ten pages:

1. insert the pages with their emails in one batch; a second scheduler fails here and stops;
2. put their work items;
3. record in the message's row how many pages are certainly queued.

A crash leaves pages that are complete or absent. Pages that the message's row does not count yet
get another work item, with the restart flag. So no page is created twice, and nobody is left out.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.lists import ListName, SubscriberGuid
from postroom.domain.errors import Overtaken
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus, with_status
from postroom.domain.messages.page_emails import PageEmails
from postroom.domain.messages.pages import PAGE_SIZE, SEND_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.errors import PostroomError
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.messages.page_rows import FAN_OUT, FREE, Page, PageClaim, page_entity
from postroom.services.messages.published_messages import PublishedIndex
from postroom.services.operations.store_history import recorded_server
from postroom.storage import (
    AlreadyExists,
    Batch,
    Insert,
    KeyRange,
    MessageToPut,
    Put,
    Server,
)

Members: TypeAlias = dict[Address, SubscriberGuid]
"""Subscribers in the order of their addresses' keys, with their GUIDs."""

_WINDOW: Final = 10 * PAGE_SIZE  # the most that one query of the store returns
_PREFIX: Final = len(entities.EMAIL_PREFIX)
_REFUSED_AT_ONCE: Final = 100
_SENDERS_REMEMBER: Final = 60.0  # seconds, what they have sent
_SENDERS_COMPARE: Final = timedelta(seconds=5)  # once per second

NO_LIST = "the list was deleted before the message was due"
NO_SUBSCRIBER = "the list has no verified subscriber"


class Superseded(PostroomError):
    """Another scheduler works on this message, or it was paused or cancelled."""


class FanOut:
    def __init__(self, services: SchedulerServices) -> None:
        self._store = store = services.store
        self._lists = store.table(entities.LISTS)
        self._pages = services.pages
        self._queue = store.queue(SEND_QUEUE)
        self._messages = services.message_rows
        self._published = PublishedIndex(store)
        self._refused = RefusedRecipients(services)
        self._server: Server | None = None
        self._server_changed_at = -math.inf

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
        queuing = with_status(message, MessageStatus.QUEUING, queued_at=clock.now())
        if queuing.published:
            await self._published.update(queuing)  # first: an interruption repeats it
        return await self._save(queuing)

    async def run(self, message: Message, goes_on: Callable[[], bool]) -> Message:
        """Plan all pages and change Queuing to Processing. `Superseded`."""
        message, last = await self.finish_interrupted(message)
        if message.from_address is not None:  # else there was no list when it was due
            following = asyncio.ensure_future(self._read(message, last))
            try:
                while found := await following:
                    if not goes_on():
                        raise Superseded
                    last = address_key(next(reversed(found)))
                    following = asyncio.ensure_future(self._read(message, last))
                    message = await self._queue_window(message, found)
            finally:
                following.cancel()
        if message.queued_pages == 0:
            reason = NO_LIST if message.from_address is None else NO_SUBSCRIBER
            message = msgspec.structs.replace(message, reason=reason)
        return await self._save(with_status(message, MessageStatus.PROCESSING))

    async def finish_interrupted(self, message: Message) -> tuple[Message, AddressKey | None]:
        """Put work items for pages that an interruption left uncounted; return the last planned
        address."""
        start = max(0, message.queued_pages - 1)  # the last queued one says where to continue
        known = {number: page async for number, page in self._pages.summaries(message, start)}
        if not known:
            return message, None
        await self._queue.put_many(
            [
                str(WorkItem(message.day, message.ref, number, restarted=True))
                for number in known
                if number >= message.queued_pages
            ]
        )
        last = max(known)
        # The row of a cancelled message is gone if archiving it was interrupted: nothing to save.
        if last >= message.queued_pages:
            message = await self._save(msgspec.structs.replace(message, queued_pages=last + 1))
        _, address = await self._pages.last_address(message, last)
        return message, address or None

    async def _read(self, message: Message, after: AddressKey | None) -> Members:
        """Return the next subscribers behind an address who may receive the message, in the order
        of addresses; none at the end."""
        if message.retry_of is not None:
            return await self._refused.after(message, message.retry_of, after)
        every = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = every.start if after is None else entities.behind(entities.email_row(after))
        found: Members = {}
        while True:
            # Without a filter: the store would have to look into each row, and most may receive it.
            within = KeyRange(start, every.stop)
            rows = await self._lists.read(
                entities.SubscriberRow, message.list_name, within, limit=_WINDOW
            )
            found |= {
                Address(subscriber.EmailAddress or row[_PREFIX:]): subscriber.SubscriberGUID
                for row, subscriber in rows.items()
                if subscriber.may_receive
            }
            if len(rows) < _WINDOW or len(found) * 2 >= _WINDOW:
                return found
            start = entities.behind(next(reversed(rows)))

    async def _queue_window(self, message: Message, found: Members) -> Message:
        first, claim = message.queued_pages, await self._first_claim()
        members = iter(found.items())
        pages = [
            Page(message.day, message.ref, number, PageEmails.planned(part), claim=claim)
            for number in range(first, first + -(-len(found) // PAGE_SIZE))
            if (part := dict(islice(members, PAGE_SIZE)))
        ]
        try:
            await self._store.write_in_order(
                [
                    Batch(entities.PAGES, [Insert(page_entity(page)) for page in pages]),
                    Put(SEND_QUEUE, [MessageToPut(str(page.item())) for page in pages]),
                ]
            )
        except AlreadyExists as exc:
            raise Superseded from exc
        return await self._save(msgspec.structs.replace(message, queued_pages=first + len(pages)))

    async def _first_claim(self) -> PageClaim:
        """Return the claim on new pages. There is none, except after a failover: the store may have
        lost these very pages, and a sender that has sent some of them marks them first."""
        server, before = self._store.server, self._server
        if server != before:
            recorded = await recorded_server(self._store)  # another message may get here meanwhile
            if before is not None or recorded not in (None, server):
                self._server_changed_at = clock.monotonic()
            self._server = server
        if clock.monotonic() - self._server_changed_at > _SENDERS_REMEMBER:
            return FREE
        return PageClaim(FAN_OUT, clock.now() + _SENDERS_COMPARE)

    async def _save(self, message: Message) -> Message:
        """Save progress. `Superseded` if another process has changed the row."""
        try:
            return await self._messages.save(message)
        except Overtaken as exc:
            raise Superseded from exc


class RefusedRecipients:
    """The recipients of a message that retries only the refused recipients of another one."""

    def __init__(self, services: SchedulerServices) -> None:
        self._lists = services.store.table(entities.LISTS)
        self._messages = services.message_rows
        self._pages = services.pages
        self._outcomes = services.outcomes

    async def after(
        self, message: Message, original: MessageRef, key: AddressKey | None
    ) -> Members:
        """Return some subscribers behind an address whom the original did not reach and who still
        want it; none at the end."""
        tried = await self._messages.get(original)
        first = 0 if key is None else await self._pages.first_until(tried, key)
        refused: list[AddressKey] = []
        async for email in self._outcomes.emails(tried, EmailOutcome.REFUSED, first):
            found = address_key(email.address)
            if key is None or found > key:
                refused.append(found)
            if len(refused) == _REFUSED_AT_ONCE:
                if wanted := await self._who_still_want_it(message.list_name, refused):
                    return wanted
                refused = []
        return await self._who_still_want_it(message.list_name, refused)

    async def _who_still_want_it(self, name: ListName, keys: Sequence[AddressKey]) -> Members:
        """Return those who are on the list, verified and not blocked."""
        found = await asyncio.gather(
            *(
                self._lists.read(
                    entities.SubscriberRow, name, KeyRange.only(entities.email_row(key))
                )
                for key in dict.fromkeys(keys)
            )
        )
        return {
            Address(subscriber.EmailAddress or row.removeprefix(entities.EMAIL_PREFIX)): (
                subscriber.SubscriberGUID
            )
            for one in found
            for row, subscriber in one.items()
            if subscriber.may_receive
        }
