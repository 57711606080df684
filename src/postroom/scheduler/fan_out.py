"""Fan-out: turns a due message into pages and work items.

It proceeds in windows of about ten pages:

1. insert the pages with their emails in one batch; a second scheduler fails here and stops;
2. put their work items;
3. record in the message's row how many pages are certainly queued.

A crash leaves pages that are complete or absent. Pages that the message's row does not count yet
get another work item, with the restart flag. So no page is created twice, and nobody is left out.

A message may be sent in waves (`domain/messages/waves/waves.py`): each is planned like this, and
the scheduler decides when the next one begins (`waiting_waves.py`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import AddressKey, address_key
from postroom.domain.audience.fields import FROM_THE_ROW, Field, Fields
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid, NoSuch, Overtaken
from postroom.domain.messages.audiences import AudienceRules
from postroom.domain.messages.messages import ListCopy, Message, MessageStatus, with_status
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.domain.messages.tracking import Track
from postroom.domain.messages.waves.canaries import ONLY_CHOSEN, CanaryRules
from postroom.errors import PostroomError
from postroom.mail.personal.content_conditions import (
    check_conditions,
    compared_fields,
    compiled_conditions,
)
from postroom.mail.tracking.utm import utm_parameters
from postroom.scheduler.members import (
    ListMembers,
    Members,
    MembersOfLists,
    MembersOfWave,
    MembersReader,
    RefusedMembers,
    SelectedMembers,
    UsedFields,
)
from postroom.scheduler.page_packing import packed
from postroom.scheduler.partial_audience import part_of
from postroom.scheduler.services import SchedulerServices
from postroom.scheduler.wave_plans import WavePlans
from postroom.services import entities
from postroom.services.events import Severity
from postroom.services.messages.sending.page_rows import FAN_OUT, FREE, Page, PageClaim, page_entity
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

_LARGEST_COPIES: Final = 60_000  # bytes: they are one property of the message's row
_SENDERS_REMEMBER: Final = 60.0  # seconds, what they have sent
_SENDERS_COMPARE: Final = timedelta(seconds=5)  # once per second

NO_LIST = "the list was deleted before the message was due"
NO_SUBSCRIBER = "the list had no confirmed subscribers when the message was due"
NO_MATCH = "the audience had no confirmed subscribers when the message was due"


class Superseded(PostroomError):
    """Another scheduler works on this message, or it was paused or cancelled."""


class FanOut:
    def __init__(self, services: SchedulerServices, canary: CanaryRules = ONLY_CHOSEN) -> None:
        self._services = services
        self._plans = WavePlans(services, canary)
        self._store = store = services.store
        self._lists = store.table(entities.LISTS)
        self._pages = services.pages
        self._queue = store.queue(SEND_QUEUE)
        self._messages = services.message_rows
        self._published = services.published
        self._audiences = services.audiences
        self._tests = services.ab_tests.rows
        self._received = services.received_messages
        self._events = services.events
        self._server: Server | None = None
        self._server_changed_at = -math.inf

    async def begin(self, message: Message) -> Message:
        """Change Pending to Queuing, and copy what is needed from the list as it is now.

        If its audience can no longer be determined, the message pauses: it must go neither to
        everyone nor to nobody. It also pauses if the list has lost a field that it merges.
        """
        found = await self._lists.get(message.list_name, entities.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            message = msgspec.structs.replace(message, reason=NO_LIST)
        else:
            try:
                rules = await self._rules(message)
            except Invalid as exc:
                return await self._pause(message, _unknown_audience(exc))
            if problem := await self._lost_fields(message):
                return await self._pause(message, problem)
            if message.part is not None and await self._tests.is_cancelled(message.part.key):
                return await self._pause(message, "its A/B test was cancelled")
            mailing_list = entities.list_from(found)
            message = msgspec.structs.replace(
                message,
                from_address=mailing_list.from_address,
                list_description=mailing_list.description,
                list_language=mailing_list.language,
                list_postal_address=mailing_list.postal_address,
                list_reply_to=mailing_list.reply_to,
                list_headers=mailing_list.headers,
                track=message.track or Track(mailing_list.track),
                utm=utm_parameters(mailing_list.utm_source, message.subject, clock.now()),
                audience_rules=rules,
                list_copies=tuple([await self._list_copy(each) for each in message.more_lists]),
            )
        queuing = with_status(message, MessageStatus.QUEUING, queued_at=clock.now())
        if queuing.published:
            await self._published.update(queuing)  # first: an interruption repeats it
        saved = await self._save(await self._with_field_copies(queuing))
        if saved.audience_rules is None and not saved.field_copies:
            return saved
        # Again: a field may have been renamed at this moment. Values that are renamed from now on
        # wait for this message (`FieldChanges.finish_rename`).
        try:
            rules = await self._rules(saved)
        except Invalid as exc:
            return await self._pause(saved, _unknown_audience(exc))
        again = await self._with_field_copies(msgspec.structs.replace(saved, audience_rules=rules))
        return saved if again == saved else await self._save(again)

    async def run(self, message: Message, may_go_on: Callable[[], bool]) -> Message:
        """Plan all pages and change Queuing to Processing. For a message in waves, plan the pages
        of the current wave, and change the status after the last one. `Superseded`, also once
        `may_go_on`, which is called after each read of recipients, returns False."""

        def check() -> None:
            if not may_go_on():
                raise Superseded

        message, last = await self.finish_interrupted(message)
        if message.from_address is not None:  # else there was no list when it was due
            try:
                message = await self._divided(message, check)
                members = await self._recipients(message)
            except (Invalid, NoSuch) as exc:  # a message that it names was deleted in the meantime
                return await self._pause(message, _unknown_audience(exc))
            if message.waves is not None:
                members = MembersOfWave(members, await self._plans.belongs(message, check))
            following = asyncio.ensure_future(members.after(last, check))
            try:
                while (found := await following).guids:
                    check()
                    last = address_key(next(reversed(found.guids)))
                    following = asyncio.ensure_future(members.after(last, check))
                    message = await self._queue_window(message, found)
            finally:
                await end_tasks([following])
        if message.waves is not None:
            message = msgspec.structs.replace(message, waves=message.waves.planned())
            if message.waves is not None and message.waves.is_waiting:
                return await self._save(message)
        if message.queued_pages == 0:
            reason = NO_LIST if message.from_address is None else NO_SUBSCRIBER
            is_whole_list = message.audience.is_everybody and message.part is None
            if message.from_address is not None and not is_whole_list:
                reason = NO_MATCH
            message = msgspec.structs.replace(message, reason=reason)
        return await self._save(with_status(message, MessageStatus.PROCESSING))

    async def finish_interrupted(self, message: Message) -> tuple[Message, AddressKey | None]:
        """Put work items for pages that an interruption left uncounted; return the last planned
        address."""
        begin = 0 if message.waves is None else message.waves.first_page
        start = max(begin, message.queued_pages - 1)  # the last queued one says where to continue
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
        _, address = await self._pages.last_address(message, last, begin)
        return message, address or None

    async def _divided(self, message: Message, check: Callable[[], None]) -> Message:
        """Return a message with the waves in which it is sent. That is decided before its first
        page is written, and then stays. `Invalid`."""
        if message.waves is not None or message.queued_pages:
            return message
        waves = await self._plans.divide(message, await self._recipients(message), check)
        if waves is None:
            return message
        return await self._save(msgspec.structs.replace(message, waves=waves))

    async def _list_copy(self, name: ListName) -> ListCopy:
        """Return what emails say about an additional list, which exists."""
        found = await self._lists.get(name, entities.LIST_ROW)
        if found is None:
            raise Superseded  # deleted at this moment: the next attempt says so
        copied = entities.list_from(found)
        return ListCopy(
            copied.description,
            copied.language,
            copied.postal_address,
            copied.reply_to,
            copied.headers,
        )

    async def _recipients(self, message: Message) -> MembersReader:
        """Return a reader of the recipients of a queued message. `Invalid`, `NoSuch`."""
        members = await self._members(message)
        if message.part is None:
            return members
        others = [await self._messages.get(each) for each in message.part.without]
        return await part_of(members, message.part, self._received, self._pages, others)

    async def _members(self, message: Message) -> MembersReader:
        """Return a reader of the audience of a message."""
        fields = [await self._used_fields(message, each) for each in range(len(message.lists))]
        if message.retry_of is not None:
            return RefusedMembers(self._services, message, message.retry_of, fields)
        if message.audience_rules is None:
            return ListMembers(self._lists, message.list_name, fields[0])
        selection = await self._audiences.selection(
            message.lists, message.audience, message.audience_rules, _day_of(message)
        )
        if message.more_lists:
            return MembersOfLists(self._lists, message.lists, fields, selection)
        return SelectedMembers(self._lists, message.list_name, fields[0], selection)

    async def _with_field_copies(self, message: Message) -> Message:
        """Return the message with copies of the fields that it merges or compares."""
        if not (message.fields or message.conditions) or message.from_address is None:
            return message
        names = dict.fromkeys((*message.fields, *compared_fields(message.conditions)))
        copies = []
        for name in message.lists:
            fields = (await self._services.fields.of(name)).fields
            used = [fields.get(each) for each in names if each not in FROM_THE_ROW]
            copies.append(tuple(_field_copy(each) for each in used if each is not None))
        if len(msgspec.json.encode(copies)) > _LARGEST_COPIES:
            return message  # with defaults of thousands of characters
        return msgspec.structs.replace(message, field_copies=tuple(copies))

    async def _used_fields(self, message: Message, number: int) -> UsedFields:
        """Return the fields and conditions of the message, for one of its lists."""
        if not message.fields and not message.conditions:
            return UsedFields(Fields(), with_zones=message.local_time)
        if message.field_copies:
            fields = Fields(message.field_copies[number])
        else:
            fields = (await self._services.fields.of(message.lists[number])).fields
        conditions = compiled_conditions(message.conditions, fields, _day_of(message))
        return UsedFields(fields, message.fields, conditions, message.local_time)

    async def _rules(self, message: Message) -> AudienceRules | None:
        """Return the rules of the message's audience as they are now; None if it goes to everyone.
        `Invalid`."""
        if message.audience.is_everybody:
            return None
        audience = await self._audiences.checked(message.list_name, message.audience)
        return await self._audiences.rules(message.list_name, audience)

    async def _lost_fields(self, message: Message) -> str:
        """Return why a list no longer has what the message uses, under its current or former name:
        "" if all have it."""
        if not message.fields and not message.conditions:
            return ""
        every = [(await self._services.fields.of(each)).fields for each in message.lists]
        used = dict.fromkeys((*message.fields, *compared_fields(message.conditions)))
        lost = [
            name
            for name in used
            if name not in FROM_THE_ROW and any(fields.get(name) is None for fields in every)
        ]
        if lost:
            noun = "field" if len(lost) == 1 else "fields"
            return f"it uses the {noun} {', '.join(lost)}, which the list no longer has"
        try:
            for fields in every:
                check_conditions(message.conditions, fields)
        except Invalid as exc:
            return exc.problem
        return ""

    async def _pause(self, message: Message, reason: str) -> Message:
        paused = with_status(
            message, MessageStatus.PAUSED, reason=reason, paused_from=message.status
        )
        saved = await self._save(paused)
        await self._events.record(
            "scheduler",
            f"the message {message.subject!r} to {message.list_name} was paused automatically:"
            f" {reason}",
            severity=Severity.WARNING,
            subject=f"message:{message.ref}",
        )
        return saved

    async def _queue_window(self, message: Message, found: Members) -> Message:
        claim = await self._first_claim()
        for emails in packed(found):
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
            recorded = await recorded_server(self._store)  # another message may get here now
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


def _unknown_audience(exc: Invalid | NoSuch) -> str:
    return f"its audience is unknown: {exc.problem if isinstance(exc, Invalid) else exc}"


def _field_copy(field: Field) -> Field:
    """Return what emails need of a field."""
    return Field(field.name, field.type, default=field.default, formerly=field.formerly)


def _day_of(message: Message) -> date:
    """Return the day for which rules are evaluated."""
    return (message.queued_at or clock.now()).date()
