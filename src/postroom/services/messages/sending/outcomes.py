"""The outcomes of a message's emails: counted by page, listed one by one."""

from __future__ import annotations

import heapq
import re
from collections.abc import AsyncIterator, Collection, Iterable
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key, folded
from postroom.domain.audience.former_addresses import FormerAddress, former_of
from postroom.domain.audience.lists.lists import Subscriber, SubscriberGuid
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.waves.waves import ALL_PAGES, PageRun
from postroom.services import entities
from postroom.services.messages.sending.holds import (
    ACCOUNT,
    WaitingReasons,
    message_key,
    together,
)
from postroom.services.messages.sending.page_rows import (
    Page,
    PageRows,
    PageSummary,
    page_from,
    page_row,
)
from postroom.storage import InvalidValue, KeyRange
from postroom.storage.codec import decode_token, encode_token

_MOST_PAGES: Final = 1_000  # read for one slice: a search through a million emails takes several
_AT_ONCE: Final = 20  # pages with their emails


class EmailRecord(msgspec.Struct, frozen=True):
    """One email, done or not, with the mail server's last reply; `at` is when that came."""

    address: Address
    outcome: EmailOutcome
    page: int
    tries: int = 0
    reply: str = ""
    was_in_doubt: bool = False
    at: datetime | None = None
    list_number: int = 0
    """Which of the message's lists the subscriber was on."""


class EmailSlice(msgspec.Struct, frozen=True):
    """Some emails in the order of addresses; `next` continues after them."""

    emails: list[EmailRecord]
    next: str | None


class OutcomeService:
    def __init__(self, pages: PageRows) -> None:
        self._pages = pages

    async def counts(self, message: Message) -> Counts:
        """Return the sum: planned = pending + accepted + refused + suppressed + in_doubt.

        Each page has its part of all six in one row, so that they agree at every moment. A message
        that is done keeps its sum.
        """
        return (await self.counts_and_waiting(message))[0]

    async def counts_and_waiting(self, message: Message) -> tuple[Counts, WaitingReasons]:
        """Return the sum, and what its deferred emails wait for."""
        if message.counts is not None:
            return message.counts, WaitingReasons()
        result = Counts()
        waiting: list[WaitingReasons] = []
        async for _, page in self._pages.summaries(message):
            result += page.counts
            if page.deferred:
                waiting.append(page.waiting)
        return result, together(waiting)

    async def tried(self, message: Message) -> Counts | None:
        """Return the counts of a message once all its emails were tried, some with success or not.
        Those that wait for another attempt say nothing, and may wait for days."""
        counts = Counts()
        everything = {ACCOUNT, message_key(message.ref)}
        async for _, page in self._pages.summaries(message):
            if page.counts.pending > page.deferred or everything & set(page.waiting.held_by):
                return None
            counts += page.counts
        has_result = counts.done > counts.suppressed or not counts.pending
        return counts if has_result else None

    async def emails(
        self, message: Message, outcome: EmailOutcome | None = None, pages: PageRun = ALL_PAGES
    ) -> AsyncIterator[EmailRecord]:
        """Yield the emails of a message in the order of addresses (within each of its waves):
        all or those of one outcome."""
        numbers: list[int] = []
        async for number, summary in self._pages.summaries(message, pages.first, pages.end):
            if outcome is None or _count(summary, outcome):
                numbers.append(number)
            if len(numbers) == _AT_ONCE:
                for record in await self._records(message, numbers):
                    if outcome is None or record.outcome is outcome:
                        yield record
                numbers = []
        for record in await self._records(message, numbers):
            if outcome is None or record.outcome is outcome:
                yield record

    async def emails_after(
        self, message: Message, outcome: EmailOutcome, key: AddressKey | None
    ) -> AsyncIterator[EmailRecord]:
        """Yield the emails of one outcome after an address, all in the order of addresses: those of
        several waves are merged."""
        waves = [self._of_run(message, outcome, key, run) for run in message.page_runs]
        heads: list[tuple[AddressKey, int, EmailRecord]] = []
        for number, wave in enumerate(waves):
            await _push_next(heads, number, wave)
        while heads:
            _, number, record = heapq.heappop(heads)
            yield record
            await _push_next(heads, number, waves[number])

    async def _of_run(
        self, message: Message, outcome: EmailOutcome, key: AddressKey | None, run: PageRun
    ) -> AsyncIterator[EmailRecord]:
        if key is not None:
            first = await self._pages.first_until(message, key, run)
            run = PageRun(first, run.end)
        async for record in self.emails(message, outcome, run):
            if key is None or address_key(record.address) > key:
                yield record

    async def slice(
        self,
        message: Message,
        *,
        outcome: EmailOutcome | None = None,
        prefix: str = "",
        limit: int = 100,
        after: str | None = None,
    ) -> EmailSlice:
        """Return up to `limit` emails, all or those of one outcome, or whose addresses begin with
        `prefix`, in any case. `InvalidValue` for a bad `after`.

        There may be fewer even if `next` is set: the number of pages read for one slice is limited.
        """
        prefix = folded(prefix)
        first, behind = _position(after)
        found: list[EmailRecord] = []
        looked, last = 0, ""
        async for number, summary in self._with_prefix(message, prefix, first):
            if looked == _MOST_PAGES:
                return EmailSlice(found, _token(number, -1))
            looked += 1
            if outcome is not None and not _count(summary, outcome):
                continue
            for place, record in enumerate(await self._records(message, [number])):
                if number == first and place <= behind:
                    continue
                if not folded(record.address).startswith(prefix):
                    continue
                if outcome is not None and record.outcome is not outcome:
                    continue
                if len(found) == limit:
                    return EmailSlice(found, last)
                found.append(record)
                last = _token(number, place)
        return EmailSlice(found, None)

    async def whole(
        self,
        message: Message,
        *,
        outcome: EmailOutcome | None = None,
        prefix: str = "",
        most: int,
    ) -> list[EmailRecord] | None:
        """Return all of them, in the order of addresses; None if the pages that hold them have more
        than `most` emails, or are too many to look at."""
        prefix = folded(prefix)
        pages: list[int] = []
        looked = emails = 0
        async for number, summary in self._with_prefix(message, prefix, 0):
            looked += 1
            if outcome is None or _count(summary, outcome):
                emails += summary.planned
                pages.append(number)
            if emails > most or looked > _MOST_PAGES:
                return None
        return [
            record
            for start in range(0, len(pages), _AT_ONCE)
            for record in await self._records(message, pages[start : start + _AT_ONCE])
            if folded(record.address).startswith(prefix)
            and (outcome is None or record.outcome is outcome)
        ]

    async def email(self, message: Message, address: Address) -> EmailRecord | None:
        """Return the email to an address: of its several spellings, the one that is given."""
        found = await self.emails_to(message, address)
        same = (each for each in found if each.address == address)
        return next(same, found[0] if found else None)

    async def emails_to(
        self,
        message: Message,
        address: Address,
        guids: Collection[SubscriberGuid] | None = None,
        former: Iterable[FormerAddress] = (),
    ) -> list[EmailRecord]:
        """Return the emails of a message to an address, however it was spelled: one, or none; with
        `guids`, only those that have one of them. Those to its owner's former addresses follow."""
        key = address_key(address)
        found = await self._emails_to(message, key, guids)
        for each in former:
            if each.key != key and each.list_name in message.lists:
                found += await self._emails_to(message, each.key, each.guids)
        return found

    async def emails_of(self, message: Message, subscriber: Subscriber) -> list[EmailRecord]:
        """Return the emails of a message to a subscriber, to any address that they have had."""
        former = former_of(subscriber)
        return await self.emails_to(message, subscriber.address, subscriber.guids, former)

    async def _emails_to(
        self, message: Message, key: AddressKey, guids: Collection[SubscriberGuid] | None
    ) -> list[EmailRecord]:
        page = await self._pages.holding(message, key)
        if page is None:
            return []
        return [
            _record(page, place, page.emails.addresses[place], page.emails.state(place))
            for place in page.emails.places_of(key, guids)
        ]

    async def _with_prefix(
        self, message: Message, prefix: str, first: int
    ) -> AsyncIterator[tuple[int, PageSummary]]:
        """Yield the pages, from one on, that may hold addresses with this beginning."""
        for run in message.page_runs:
            if run.end is not None and run.end <= first:
                continue
            start = max(first, run.first)
            if prefix and start == run.first:
                start = await self._pages.first_until(message, prefix, run)
            async for number, summary in self._pages.summaries(message, start, run.end):
                if not _reaches(summary, prefix):
                    break
                yield number, summary

    async def _records(self, message: Message, numbers: list[int]) -> list[EmailRecord]:
        """Return the emails of some pages, given in order."""
        if not numbers:
            return []
        result = await self._pages.table.query(
            KeyRange.only(entities.pages_partition(message.day, message.ref)),
            KeyRange.between(page_row(numbers[0]), page_row(numbers[-1])),
        )
        wanted = {page_row(number) for number in numbers}
        pages = [page_from(entity) for entity in result.entities if entity.row in wanted]
        return [
            _record(page, place, *email)
            for page in pages
            for place, email in enumerate(page.emails)
        ]


async def _push_next(
    heads: list[tuple[AddressKey, int, EmailRecord]], number: int, wave: AsyncIterator[EmailRecord]
) -> None:
    async for record in wave:
        heapq.heappush(heads, (address_key(record.address), number, record))
        return


def _record(page: Page, place: int, address: Address, state: EmailState) -> EmailRecord:
    return EmailRecord(
        address=address,
        outcome=state.outcome,
        page=page.number,
        tries=state.tries,
        reply=state.reply,
        was_in_doubt=state.was_in_doubt,
        at=state.at,
        list_number=page.emails.list_number(place),
    )


def _count(page: PageSummary, outcome: EmailOutcome) -> int:
    return page.counts.as_dict()[outcome.value]


def _reaches(page: PageSummary, prefix: str) -> bool:
    """Return whether addresses with this beginning can be on the page, or on a later one."""
    begin = page.first_address
    return begin <= prefix or begin.startswith(prefix)


def _token(page: int, place: int) -> str:
    return encode_token(f"{page:06}", str(place))


def _position(token: str | None) -> tuple[int, int]:
    """Return the page with which a slice begins, and the place there after which it begins."""
    if token is None:
        return 0, -1
    page, place = decode_token(token, 2)
    if not re.fullmatch("[0-9]{6}", page) or not re.fullmatch("-1|[0-9]{1,3}", place):
        raise InvalidValue("the continuation token does not belong to this message")
    return int(page), int(place)
