"""The conversion that stores the emails of a page in the page's own row.

Earlier, each email was a separate row: in `message` until it was done, then in `messagearchive`,
with the partition `day,ref,page` and its address as row key. A page's row had only its share of the
sum, and a claim was another row.

A page is converted in place if the order of its emails does not change. Even earlier versions
sorted addresses by spelling, with `Zoe@…` before `ann@…`. Messages with such addresses, and
messages that were being queued, get new pages in the order of keys.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.page_emails import EmailState, PageEmails
from postroom.domain.messages.pages import PAGE_SIZE, SEND_QUEUE, WorkItem, page_partition
from postroom.services import entities
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.sending.holds import WaitingReasons, waiting_of
from postroom.services.messages.sending.page_rows import (
    FREE,
    Page,
    PageClaim,
    page_entity,
    page_row,
)
from postroom.services.partial_rows import SubscriberRow
from postroom.services.row_ranges import remove_rows
from postroom.storage import Conflict, Entity, KeyRange, Store, eq

Keep: TypeAlias = Callable[[], Awaitable[None]]

_log = logging.getLogger(__name__)

_CLAIM: Final = ",claim"
_NEW: Final = "new,"
"""The prefix of a rebuilt page's row key, until all pages of the message are rebuilt."""
_SWITCH: Final = "switch"
"""The row that marks a message whose pages are all rebuilt."""
_LOG_EVERY: Final = 1_000  # pages
_UNKNOWN: Final = "claimed by a sender when the store was converted, so it may have been sent"


class _Email(msgspec.Struct, frozen=True, gc=False):
    """The row of an email in either table."""

    SubscriberGUID: str
    EmailAddress: str = ""
    Outcome: str = EmailOutcome.PENDING.value
    Tries: int = 0
    FirstTriedAt: datetime | None = None
    WasInDoubt: bool = False
    Doubts: int = 0
    NextTryAt: datetime | None = None
    TriedAt: datetime | None = None
    At: datetime | None = None
    Reply: str = ""

    @property
    def state(self) -> EmailState:
        return EmailState(
            outcome=EmailOutcome(self.Outcome),
            reply=self.Reply,
            tries=self.Tries,
            unanswered=max(self.Doubts, self.WasInDoubt),
            at=self.At or self.TriedAt,
            next_try_at=self.NextTryAt,
            first_tried_at=self.FirstTriedAt,
        )


_Emails: TypeAlias = dict[Address, tuple[SubscriberGuid, EmailState]]


async def convert(store: Store, keep: Keep) -> None:
    """Convert the pages of all messages."""
    index = store.table(entities.INDEX)
    messages = MessageRows(store)
    converted = pages = 0

    async def keep_and_log() -> None:
        nonlocal pages
        pages += 1
        if pages % _LOG_EVERY == 0:
            _log.info(
                "%s pages of %s messages converted so far", f"{pages:,}", f"{converted + 1:,}"
            )
        await keep()

    async for entry in index.scan(KeyRange.only(entities.BY_REF)):
        try:
            message = await messages.get(entry.row)
        except NoSuch:
            continue  # an entry left by an interruption
        await _MessageConversion(store, messages, message, keep_and_log).run()
        converted += 1


class _MessageConversion:
    def __init__(self, store: Store, messages: MessageRows, message: Message, keep: Keep) -> None:
        self._emails = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._pages = store.table(entities.PAGES)
        self._lists = store.table(entities.LISTS)
        self._queue = store.queue(SEND_QUEUE)
        self._messages = messages
        self._message = message
        self._keep = keep
        self._partition = entities.pages_partition(message.day, message.ref)

    async def run(self) -> None:
        rows = {
            entity.row: "Emails" in entity.properties
            async for entity in self._pages.scan(KeyRange.only(self._partition))
        }
        old = [row for row in rows if row.isdigit()]
        if _SWITCH in rows:
            await self._switch(old)
        elif all(rows[row] for row in old):
            for row in old:
                await self._remove_emails(int(row))
        elif await self._needs_new_pages(old):
            await self._rebuild(old)
            await self._switch(old)
        else:
            for row in old:
                await self._convert_page(int(row))
                await self._keep()

    # -- converting in place ----------------------------------------------------------------------

    async def _convert_page(self, number: int) -> None:
        """Put the emails of a page into its row, and then remove their own."""
        found = await self._pages.get(self._partition, page_row(number))
        if found is not None and "Emails" not in found.properties:
            emails = await self._read(number)
            claim = await self._pages.get(self._partition, page_row(number) + _CLAIM)
            page = Page(
                day=self._message.day,
                ref=self._message.ref,
                number=number,
                emails=_packed(emails),
                waiting=waiting_of(found),
                parked=found.properties.get("Parked") is True,
                claim=FREE if claim is None else _claim(claim),
            )
            try:
                await self._pages.replace(page_entity(page), found.etag)
            except Conflict:
                return  # another process has converted it, and removes the rows
        await self._remove_emails(number)

    async def _remove_emails(self, number: int) -> None:
        partition = page_partition(self._message.day, self._message.ref, number)
        for table in (self._emails, self._archive):
            await remove_rows(table, partition, list(await table.read(_Email, partition)))
        claim = page_row(number) + _CLAIM
        if await self._pages.get(self._partition, claim) is not None:
            await remove_rows(self._pages, self._partition, [claim])

    async def _read(self, number: int) -> _Emails:
        """Return the emails of a page in the order of keys. An email in both tables is done."""
        partition = page_partition(self._message.day, self._message.ref, number)
        found: _Emails = {}
        for table in (self._emails, self._archive):
            for row, email in (await table.read(_Email, partition)).items():
                address = Address(email.EmailAddress or row)
                found[address] = SubscriberGuid(email.SubscriberGUID), email.state
        return dict(sorted(found.items(), key=lambda each: address_key(each[0])))

    # -- rebuilding ----------------------------------------------------------------------------

    async def _needs_new_pages(self, old: Iterable[str]) -> bool:
        if MessageStatus.QUEUING in (self._message.status, self._message.paused_from):
            return True
        if await self._is_keyed():
            return False
        for row in old:
            found = await self._read(int(row))
            if any(address_key(address) != address for address in found):
                return True
            await self._keep()
        return False

    async def _is_keyed(self) -> bool:
        """Return whether all pages are in the order of keys, as the message's row says."""
        row = entities.message_row(self._message.ref)
        for table in (self._emails, self._archive):
            found = await table.get(self._message.day, row)
            if found is not None:
                return found.properties.get("FirstKeyedPage") == 0
        return False

    async def _rebuild(self, old: list[str]) -> None:
        """Write new pages next to the old ones, then the row that marks them as complete."""
        left = await self._pages.query(KeyRange.only(self._partition), KeyRange.prefix(_NEW))
        await remove_rows(self._pages, self._partition, [each.row for each in left.entities])
        number = 0
        page: _Emails = {}
        async for address, email in self._in_order(old):
            page[address] = email
            if len(page) == PAGE_SIZE:
                await self._write_new(number, page)
                number, page = number + 1, {}
        if page:
            await self._write_new(number, page)
        count = number + bool(page)
        await self._pages.upsert(Entity(self._partition, _SWITCH, {"Pages": count}))

    async def _write_new(self, number: int, emails: _Emails) -> None:
        packed = _packed(emails)
        waiting = _waiting(packed)
        entity = page_entity(Page(self._message.day, self._message.ref, number, packed, waiting))
        await self._pages.upsert(
            Entity(self._partition, _NEW + page_row(number), entity.properties)
        )
        await self._keep()

    async def _in_order(
        self, old: list[str]
    ) -> AsyncIterator[tuple[Address, tuple[SubscriberGuid, EmailState]]]:
        """Yield all emails of the message in the order of keys.

        Those whose spelling equals their key are already in that order. The few others, and erased
        ones, are sorted in memory.
        """
        others: _Emails = {}
        if MessageStatus.QUEUING in (self._message.status, self._message.paused_from):
            others = await self._not_planned_yet(old)
        for row in old:
            found = await self._read_unclaimed(int(row))
            others |= {a: email for a, email in found.items() if not _is_in_order(a)}
        waiting = sorted(others.items(), key=lambda each: address_key(each[0]), reverse=True)
        for row in old:
            for address, email in (await self._read_unclaimed(int(row))).items():
                if not _is_in_order(address):
                    continue
                while waiting and address_key(waiting[-1][0]) < address:
                    yield waiting.pop()
                yield address, email
        while waiting:
            yield waiting.pop()

    async def _read_unclaimed(self, number: int) -> _Emails:
        """Return the emails of a page. If a sender has claimed it, pending ones are in doubt: its
        journal cannot settle them, because it refers to the page's old number."""
        emails = await self._read(number)
        if await self._pages.get(self._partition, page_row(number) + _CLAIM) is None:
            return emails
        now = clock.now()
        return {
            address: (guid, _doubted(state, now) if state.outcome is _PENDING else state)
            for address, (guid, state) in emails.items()
        }

    async def _not_planned_yet(self, old: list[str]) -> _Emails:
        """Return the verified subscribers who are not on any page of a message that was being
        queued."""
        if self._message.from_address is None or self._message.retry_of is not None:
            return {}
        planned: set[Address] = set()
        for row in old:
            planned.update(await self._read(int(row)))
        members: _Emails = {}
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = within.start
        while True:
            rows = await self._lists.read(
                SubscriberRow,
                self._message.list_name,
                KeyRange(start, within.stop),
                where=eq("Verified", True),
            )
            for row, subscriber in rows.items():
                address = Address(
                    subscriber.EmailAddress or row.removeprefix(entities.EMAIL_PREFIX)
                )
                if subscriber.may_receive and address not in planned:
                    members[address] = subscriber.SubscriberGUID, EmailState()
            if len(rows) < _ROWS:
                return members
            start = entities.key_after(next(reversed(rows)))
            await self._keep()

    async def _switch(self, old: list[str]) -> None:
        """Replace the old pages with the new ones. Can be repeated from any point."""
        switch = await self._pages.get(self._partition, _SWITCH)
        count = 0 if switch is None else entities.read(switch, "Pages", int)
        for row in old:
            await self._remove_emails(int(row))
            await self._keep()
        new: list[str] = []
        pages = self._pages.scan(KeyRange.only(self._partition), KeyRange.prefix(_NEW))
        async for entity in pages:
            new.append(entity.row)
            row = entity.row.removeprefix(_NEW)
            await self._pages.upsert(Entity(self._partition, row, entity.properties))
            await self._keep()
        if self._message.status not in FINAL:
            items = [
                WorkItem(self._message.day, self._message.ref, number, restarted=True)
                for number in range(count)
            ]
            await self._queue.put_many([str(each) for each in items])
            await self._messages.save(msgspec.structs.replace(self._message, queued_pages=count))
        gone = [row for row in old if int(row) >= count]
        for rows in (gone, new, [_SWITCH]):
            await remove_rows(self._pages, self._partition, rows)


_PENDING: Final = EmailOutcome.PENDING
_ROWS: Final = 1000
_ERASED_ROW: Final = re.compile(r"erased-[0-9a-f]{16}@erased\.invalid")
"""The address of an email that was erased on request."""


def _packed(emails: _Emails) -> PageEmails:
    planned = PageEmails.planned({address: guid for address, (guid, _) in emails.items()})
    states = {
        place: state for place, (_, state) in enumerate(emails.values()) if state != EmailState()
    }
    packed = planned.settled(states)
    for place, address in enumerate(emails):
        if _ERASED_ROW.fullmatch(address):
            packed = packed.erased(place)
    return packed


def _is_in_order(address: Address) -> bool:
    """Return whether the email is already in the order of keys."""
    return address_key(address) == address and not _ERASED_ROW.fullmatch(address)


def _waiting(emails: PageEmails) -> WaitingReasons:
    """Return what the emails of a page wait for; the next sender adds the holds."""
    deferred = [emails.state(place) for place in emails.pending()]
    times = [state.next_try_at for state in deferred if state.next_try_at is not None]
    if not times:
        return WaitingReasons()
    reply = next(state.reply for state in deferred if state.next_try_at is not None)
    return WaitingReasons(len(times), min(times), reply)


def _claim(entity: Entity) -> PageClaim:
    return PageClaim(
        entities.read(entity, "Owner", str),
        entities.read(entity, "Until", datetime),
        entities.read_optional(entity, "Doubtful", bool) or False,
    )


def _doubted(state: EmailState, now: datetime) -> EmailState:
    return EmailState(
        reply=_UNKNOWN,
        tries=state.tries + 1,
        unanswered=state.unanswered + 1,
        at=now,
        first_tried_at=state.first_tried_at or now,
    )
