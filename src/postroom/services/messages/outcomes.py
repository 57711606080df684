"""The outcomes of a message's emails: counted by page, listed one by one.

Pages are in the order of their emails' rows, and each says where it begins and ends, so the page of
an address is found by binary search. Rows are address keys from `Message.first_keyed_page` on.
Before it, they are spellings, and an address may be on several pages: each spelling was a
subscriber of its own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key, folded
from postroom.domain.audience.spellings import next_spelling
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import page_partition
from postroom.services import entities
from postroom.services.messages.waiting_reasons import WaitingReasons, together, waiting_of
from postroom.storage import Entity, InvalidValue, KeyRange, Store
from postroom.storage.tokens import decode_token, encode_token

_MOST_JUMPS = 100  # between spellings, in one message: mostly as many as addresses have letters

_MOST_PAGES = 1_000  # read for one response: a search through a million emails takes several


class EmailRecord(msgspec.Struct, frozen=True):
    """One email with the mail server's last reply; `at` is when it was finished.

    `row` is its key in the store: the address's key, or the address if an earlier version wrote it.
    """

    row: str
    address: Address
    outcome: EmailOutcome
    page: int
    tries: int = 0
    reply: str = ""
    was_in_doubt: bool = False
    at: datetime | None = None


class EmailPage(msgspec.Struct, frozen=True):
    """Some emails in the order of addresses; `next` continues behind them."""

    emails: list[EmailRecord]
    next: str | None


class OutcomeService:
    def __init__(self, store: Store) -> None:
        self._emails = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._search = PageSearch(store)

    async def counts(self, message: Message) -> Counts:
        """Return the sum: planned = pending + accepted + refused + suppressed + in_doubt.

        Each page has its share of all six in one row, so that they agree at every moment. A
        finished message has its own sum.
        """
        return (await self.counts_and_waiting(message))[0]

    async def counts_and_waiting(self, message: Message) -> tuple[Counts, WaitingReasons]:
        """Return the sum, and what its deferred emails wait for."""
        if message.counts is not None:
            return message.counts, WaitingReasons()
        result = Counts()
        waiting: list[WaitingReasons] = []
        async for page in self.pages(message):
            counts = entities.counts_from(page)
            result += counts
            if counts.deferred:
                waiting.append(waiting_of(page))
        return result, together(waiting)

    def pages(self, message: Message, first: int = 0) -> AsyncIterator[Entity]:
        """Yield the rows of a message's pages, in order."""
        return self._search.pages(message, first)

    async def emails(
        self, message: Message, outcome: EmailOutcome | None = None
    ) -> AsyncIterator[EmailRecord]:
        """Yield every email of a message in the order of addresses."""
        async for page in self.pages(message):
            for record in await self.page_emails(message, int(page.row)):
                if outcome is None or record.outcome is outcome:
                    yield record

    async def page(
        self,
        message: Message,
        *,
        outcome: EmailOutcome | None = None,
        prefix: str = "",
        limit: int = 100,
        after: str | None = None,
    ) -> EmailPage:
        """Return up to `limit` emails with this outcome whose addresses begin with `prefix`,
        ignoring case. `InvalidValue` for a bad `after`.

        There may be fewer even if `next` is set: the amount read for one response is limited.
        """
        prefix, is_sorted = folded(prefix), message.first_keyed_page == 0
        if after is None and prefix and is_sorted:
            first, last_seen = await self._search.first_until(message, prefix), ""
        else:
            first, last_seen = _position(after)
        found: list[EmailRecord] = []
        looked = 0
        async for row in self.pages(message, first):
            number = int(row.row)
            if looked == _MOST_PAGES:
                return EmailPage(found, encode_token(f"{number:06}", ""))
            looked += 1
            if outcome is not None and _has_none(row, outcome):
                continue
            for record in await self.page_emails(message, number):
                if number == first and record.row <= last_seen:
                    continue
                if not folded(record.row).startswith(prefix):
                    if is_sorted and record.row > prefix:
                        return EmailPage(found, None)
                    continue
                if outcome is not None and record.outcome is not outcome:
                    continue
                if len(found) == limit:
                    return EmailPage(found, encode_token(f"{found[-1].page:06}", found[-1].row))
                found.append(record)
        return EmailPage(found, None)

    async def whole(
        self,
        message: Message,
        *,
        outcome: EmailOutcome | None = None,
        prefix: str = "",
        most: int,
    ) -> list[EmailRecord] | None:
        """Return all of them at once, in the order of addresses; None if their pages have more than
        `most` emails, or are too many to read."""
        prefix, is_sorted = folded(prefix), message.first_keyed_page == 0
        first = await self._search.first_until(message, prefix) if prefix and is_sorted else 0
        pages: list[int] = []
        looked = emails = 0
        async for row in self.pages(message, first):
            if is_sorted and not _reaches(row, prefix):
                break
            looked += 1
            if outcome is None or not _has_none(row, outcome):
                emails += entities.read(row, "Planned", int)
                pages.append(int(row.row))
            if emails > most or looked > _MOST_PAGES:
                return None
        return [
            record
            for record in await self._emails_of(message, pages)
            if folded(record.row).startswith(prefix)
            and (outcome is None or record.outcome is outcome)
        ]

    async def _emails_of(self, message: Message, pages: list[int]) -> list[EmailRecord]:
        """Return the emails of many pages, like `page_emails`."""
        partitions = {page_partition(message.day, message.ref, page): page for page in pages}
        found: dict[str, EmailRecord] = {}
        for table in (self._emails, self._archive):
            rows = await table.read_partitions(_Row, partitions) if partitions else {}
            for partition, page in partitions.items():
                found |= {key: _record(key, row, page) for key, row in rows[partition].items()}
        return [found[row] for row in sorted(found)]

    async def page_emails(self, message: Message, page: int) -> list[EmailRecord]:
        """Return the emails of one page. One that is in both tables is finished."""
        partition = KeyRange.only(page_partition(message.day, message.ref, page))
        waiting = (await self._emails.query(partition)).entities
        done = (await self._archive.query(partition)).entities
        found = {entity.row: _pending(entity, page) for entity in waiting}
        found |= {entity.row: _done(entity, page) for entity in done}
        return [found[row] for row in sorted(found)]

    async def email(self, message: Message, address: Address) -> EmailRecord | None:
        """Return the email to an address, preferably in this spelling."""
        found = await self.emails_to(message, address)
        same = (each for each in found if each.address == address)
        return next(same, found[0] if found else None)

    async def emails_to(self, message: Message, address: Address) -> list[EmailRecord]:
        """Return the emails of a message to an address, however it was spelled: one, or none.

        A message that was queued before addresses had keys may have several.
        """
        found: list[EmailRecord] = []
        for page in await self.pages_for(message, address):
            found += await self.emails_of_page(message, page, address)
        return found

    async def pages_for(self, message: Message, address: Address) -> list[Entity]:
        """Return the rows of the pages that may hold emails to an address."""
        return await self._search.may_hold(message, address)

    async def emails_of_page(
        self, message: Message, page: Entity, address: Address
    ) -> list[EmailRecord]:
        """Return the emails of one page to an address, however it was spelled."""
        key = address_key(address)
        emails = await self.page_emails(message, int(page.row))
        return [each for each in emails if address_key(each.address) == key]

    async def place_after(self, message: Message, row: str) -> str:
        """Return the `after` of `page` that continues behind this row."""
        return encode_token(f"{await self._search.first_until(message, row):06}", row)


def _position(token: str | None) -> tuple[int, str]:
    """Return the first page, and the address in it to continue behind."""
    if token is None:
        return 0, ""
    page, address = decode_token(token, 2)
    if not re.fullmatch("[0-9]{6}", page):
        raise InvalidValue("the continuation token does not belong to this message")
    return int(page), address


def _has_none(page: Entity, outcome: EmailOutcome) -> bool:
    """Return whether the page's counts have no such email."""
    return entities.counts_from(page).as_dict()[outcome.value] == 0


def _reaches(page: Entity, prefix: str) -> bool:
    """Return whether addresses with this prefix can be on the page, or on a later one."""
    begin = entities.read(page, "FirstAddress", str)
    return begin <= prefix or begin.startswith(prefix)


class _Row(msgspec.Struct, frozen=True, gc=False):
    """The properties of an email that are read in either table; a pending one has no outcome."""

    EmailAddress: str = ""
    Outcome: str = EmailOutcome.PENDING.value
    Tries: int = 0
    Reply: str = ""
    WasInDoubt: bool = False
    At: datetime | None = None


def _record(key: str, row: _Row, page: int) -> EmailRecord:
    return EmailRecord(
        row=key,
        address=Address(row.EmailAddress or key),
        outcome=EmailOutcome(row.Outcome),
        page=page,
        tries=row.Tries,
        reply=row.Reply,
        was_in_doubt=row.WasInDoubt,
        at=row.At,
    )


def _pending(entity: Entity, page: int) -> EmailRecord:
    return EmailRecord(
        row=entity.row,
        address=entities.read_spelling(entity),
        outcome=EmailOutcome.PENDING,
        page=page,
        tries=entities.read_optional(entity, "Tries", int) or 0,
        reply=entities.read_optional(entity, "Reply", str) or "",
        was_in_doubt=entities.read_optional(entity, "WasInDoubt", bool) or False,
        at=entities.read_optional(entity, "At", datetime),
    )


def _done(entity: Entity, page: int) -> EmailRecord:
    return msgspec.structs.replace(
        _pending(entity, page), outcome=EmailOutcome(entities.read(entity, "Outcome", str))
    )


class PageSearch:
    """Finds the pages of a message that may hold an address, without reading the others."""

    def __init__(self, store: Store) -> None:
        self._pages = store.table(entities.PAGES)

    async def pages(self, message: Message, first: int = 0) -> AsyncIterator[Entity]:
        """Yield the rows of a message's pages, in order, without the claims between them."""
        partition = entities.pages_partition(message.day, message.ref)
        async for entity in self._pages.scan(
            KeyRange.only(partition), KeyRange(start=entities.page_row(first))
        ):
            if "," not in entity.row:
                yield entity

    async def may_hold(self, message: Message, address: Address) -> list[Entity]:
        """Return the rows of the pages on which an address may be, in any spelling."""
        count = await self._count(message)
        key = address_key(address)
        keyed = count if message.first_keyed_page is None else message.first_keyed_page
        found = await self._with_spellings(message, key, min(keyed, count))
        number = await self._first_until(message, key, keyed, count)
        page = await self._page(message, number) if number < count else None
        if page is not None and entities.read(page, "FirstAddress", str) <= key:
            found.append(page)
        return found

    async def first_until(self, message: Message, row: str) -> int:
        """Return the number of the first page that does not end before this row."""
        return await self._first_until(message, row, 0, await self._count(message))

    async def _with_spellings(self, message: Message, key: AddressKey, stop: int) -> list[Entity]:
        found: list[Entity] = []
        number = 0
        spelling = next_spelling(key, "")
        for _ in range(_MOST_JUMPS):
            if spelling is None or number >= stop:
                break
            number = await self._first_until(message, spelling, number, stop)
            page = await self._page(message, number) if number < stop else None
            if page is None:
                break
            first, last = (entities.read(page, f"{end}Address", str) for end in ("First", "Last"))
            here = next_spelling(key, max(first, spelling), or_same=True)
            if here is not None and here <= last:
                found.append(page)
            spelling = next_spelling(key, max(last, spelling))
            number += 1
        return found

    async def _first_until(self, message: Message, row: str, low: int, high: int) -> int:
        while low < high:
            middle = (low + high) // 2
            page = await self._page(message, middle)
            if page is None or entities.read(page, "LastAddress", str) >= row:
                high = middle
            else:
                low = middle + 1
        return low

    async def _page(self, message: Message, number: int) -> Entity | None:
        partition = entities.pages_partition(message.day, message.ref)
        return await self._pages.get(partition, entities.page_row(number))

    async def _count(self, message: Message) -> int:
        """Return the number of pages: the queued ones, and perhaps a few more, without gaps."""
        count = message.queued_pages
        async for page in self.pages(message, message.queued_pages):
            count = int(page.row) + 1
        return count
