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
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import AddressKey, address_key
from postroom.domain.audience.fields import FROM_THE_ROW, Fields
from postroom.domain.errors import Invalid, Overtaken
from postroom.domain.messages.audiences import AudienceRules
from postroom.domain.messages.messages import Message, MessageStatus, with_status
from postroom.domain.messages.page_emails import PageEmails
from postroom.domain.messages.pages import PAGE_SIZE, SEND_QUEUE, WorkItem
from postroom.errors import PostroomError
from postroom.scheduler.members import (
    ListMembers,
    Members,
    MembersReader,
    RefusedMembers,
    SelectedMembers,
    UsedFields,
)
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.events import Severity
from postroom.services.messages.page_rows import FAN_OUT, FREE, Page, PageClaim, page_entity
from postroom.services.messages.published_messages import PublishedIndex
from postroom.services.operations.store_history import recorded_server
from postroom.storage import (
    AlreadyExists,
    Batch,
    Insert,
    MessageToPut,
    Put,
    Server,
)
from postroom.watchdog import end_tasks

_LONG_VALUES: Final = 100_000  # bytes of a page: a batch of the store holds 2,000,000
_LARGE_PAGES: Final = 10
_SENDERS_REMEMBER: Final = 60.0  # seconds, what they have sent
_SENDERS_COMPARE: Final = timedelta(seconds=5)  # once per second

NO_LIST = "the list was deleted before the message was due"
NO_SUBSCRIBER = "the list has no verified subscriber"
NO_MATCH = "the audience had no verified subscriber when the message was due"


class Superseded(PostroomError):
    """Another scheduler works on this message, or it was paused or cancelled."""


class FanOut:
    def __init__(self, services: SchedulerServices) -> None:
        self._services = services
        self._store = store = services.store
        self._lists = store.table(entities.LISTS)
        self._pages = services.pages
        self._queue = store.queue(SEND_QUEUE)
        self._messages = services.message_rows
        self._published = PublishedIndex(store)
        self._audiences = services.audiences
        self._events = services.events
        self._server: Server | None = None
        self._server_changed_at = -math.inf

    async def begin(self, message: Message) -> Message:
        """Change Pending to Queuing, and copy what is needed from the list as it is now.

        If its audience can no longer be determined, the message pauses: it must go neither to
        everybody nor to nobody. It also pauses if the list has lost a field that it merges.
        """
        found = await self._lists.get(message.list_name, entities.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            message = msgspec.structs.replace(message, reason=NO_LIST)
        else:
            try:
                rules = await self._rules(message)
            except Invalid as exc:
                return await self._pause(message, f"its audience is unknown: {exc.problem}")
            if missing := await self._missing_fields(message):
                return await self._pause(message, _lost_fields(missing))
            mailing_list = entities.list_from(found)
            message = msgspec.structs.replace(
                message,
                from_address=mailing_list.from_address,
                list_description=mailing_list.description,
                list_language=mailing_list.language,
                list_postal_address=mailing_list.postal_address,
                audience_rules=rules,
            )
        queuing = with_status(message, MessageStatus.QUEUING, queued_at=clock.now())
        if queuing.published:
            await self._published.update(queuing)  # first: an interruption repeats it
        return await self._save(queuing)

    async def run(self, message: Message, goes_on: Callable[[], bool]) -> Message:
        """Plan all pages and change Queuing to Processing. `Superseded`, also once `goes_on`, which
        is asked after each read of recipients, returns False."""

        def check() -> None:
            if not goes_on():
                raise Superseded

        message, last = await self.finish_interrupted(message)
        if message.from_address is not None:  # else there was no list when it was due
            members = await self._members(message)
            following = asyncio.ensure_future(members.after(last, check))
            try:
                while (found := await following).guids:
                    check()
                    last = address_key(next(reversed(found.guids)))
                    following = asyncio.ensure_future(members.after(last, check))
                    message = await self._queue_window(message, found)
            finally:
                await end_tasks([following])
        if message.queued_pages == 0:
            reason = NO_LIST if message.from_address is None else NO_SUBSCRIBER
            if message.from_address is not None and not message.audience.is_everybody:
                reason = NO_MATCH
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

    async def _members(self, message: Message) -> MembersReader:
        """Return what reads the recipients of a message, which is queued."""
        fields = UsedFields(Fields(), ())
        if message.fields:
            declared = await self._services.fields.of(message.list_name)
            fields = UsedFields(declared.fields, message.fields)
        if message.retry_of is not None:
            return RefusedMembers(self._services, message, message.retry_of, fields)
        if message.audience_rules is None:
            return ListMembers(self._lists, message.list_name, fields)
        today = (message.queued_at or clock.now()).date()
        selection = self._audiences.selection(message.audience, message.audience_rules, today)
        return SelectedMembers(self._lists, message.list_name, fields, selection)

    async def _rules(self, message: Message) -> AudienceRules | None:
        """Return the rules of the message's audience as they are now; None if it goes to everybody.
        `Invalid`."""
        if message.audience.is_everybody:
            return None
        audience = await self._audiences.checked(message.list_name, message.audience)
        return await self._audiences.rules(message.list_name, audience)

    async def _missing_fields(self, message: Message) -> list[str]:
        """Return the fields that the message merges and its list no longer has, under their present
        or their former names."""
        if not message.fields:
            return []
        fields = (await self._services.fields.of(message.list_name)).fields
        return [
            name for name in message.fields if name not in FROM_THE_ROW and fields.get(name) is None
        ]

    async def _pause(self, message: Message, reason: str) -> Message:
        paused = with_status(
            message, MessageStatus.PAUSED, reason=reason, paused_from=message.status
        )
        saved = await self._save(paused)
        await self._events.record(
            "scheduler",
            f"the message {message.subject!r} to {message.list_name} paused itself: {reason}",
            severity=Severity.WARNING,
            subject=f"message:{message.ref}",
        )
        return saved

    async def _queue_window(self, message: Message, found: Members) -> Message:
        claim = await self._first_claim()
        for emails in _batches(_pages(found)):
            first = message.queued_pages
            pages = [
                Page(message.day, message.ref, number, each, claim=claim)
                for number, each in enumerate(emails, first)
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
            progress = msgspec.structs.replace(message, queued_pages=first + len(pages))
            message = await self._save(progress)
        return message

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


def _lost_fields(names: Sequence[str]) -> str:
    noun = "field" if len(names) == 1 else "fields"
    return f"it uses the {noun} {', '.join(names)}, which the list no longer has"


def _pages(found: Members) -> Iterator[PageEmails]:
    """Yield the emails of each page: fewer than usual if the values of their fields are long."""
    members = iter(found.guids.items())
    if not found.values:
        while part := dict(islice(members, PAGE_SIZE)):
            yield PageEmails.planned(part)
        return
    part, size = {}, 0
    for address, guid in members:
        part[address] = guid
        size += sum(len(value.encode()) for value in found.values[address])
        if len(part) == PAGE_SIZE or size > _LONG_VALUES:
            yield PageEmails.planned(part, [found.values[each] for each in part])
            part, size = {}, 0
    if part:
        yield PageEmails.planned(part, [found.values[each] for each in part])


def _batches(pages: Iterator[PageEmails]) -> Iterator[list[PageEmails]]:
    """Yield pages that are written at once: all of them, unless they are large."""
    batch: list[PageEmails] = []
    for page in pages:
        batch.append(page)
        if page.has_values and len(batch) == _LARGE_PAGES:
            yield batch
            batch = []
    if batch:
        yield batch
