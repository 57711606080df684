"""What has become of the emails of a message: counted by page, listed one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from postroom.domain.addresses import Address
from postroom.domain.emails import Counts, EmailOutcome
from postroom.domain.messages import Message
from postroom.domain.pages import page_partition
from postroom.services import records
from postroom.storage import Entity, KeyRange, Store


class EmailRecord(msgspec.Struct, frozen=True):
    """One email, done or not, with the mail server's last words."""

    address: Address
    outcome: EmailOutcome
    page: int
    tries: int = 0
    reply: str = ""
    was_in_doubt: bool = False


class OutcomeService:
    def __init__(self, store: Store) -> None:
        self._emails = store.table(records.MESSAGES)
        self._archive = store.table(records.ARCHIVE)
        self._pages = store.table(records.PAGES)

    async def counts(self, message: Message) -> Counts:
        """The sum: planned = pending + accepted + refused + suppressed + in_doubt.

        Each page has its part of all six in one row, so that they agree at every moment.
        """
        result = Counts()
        async for page in self.pages(message):
            result += records.counts_from(page)
        return result

    async def pages(self, message: Message, first: int = 0) -> AsyncIterator[Entity]:
        """The rows of a message's pages, in order, without the claims between them."""
        partition = records.pages_partition(message.day, message.ref)
        async for entity in self._pages.scan(
            KeyRange.only(partition), KeyRange(start=records.page_row(first))
        ):
            if "," not in entity.row:
                yield entity

    async def emails(
        self, message: Message, outcome: EmailOutcome | None = None
    ) -> AsyncIterator[EmailRecord]:
        """Every email of a message in the order of addresses, page by page."""
        async for page in self.pages(message):
            for record in await self.page_emails(message, int(page.row)):
                if outcome is None or record.outcome is outcome:
                    yield record

    async def page_emails(self, message: Message, page: int) -> list[EmailRecord]:
        """One page: who waits and who is done. Whoever is in both tables is done."""
        partition = KeyRange.only(page_partition(message.day, message.ref, page))
        waiting = (await self._emails.query(partition)).entities
        done = (await self._archive.query(partition)).entities
        found = {entity.row: _pending(entity, page) for entity in waiting}
        found |= {entity.row: _done(entity, page) for entity in done}
        return [found[row] for row in sorted(found)]

    async def email(self, message: Message, address: Address) -> EmailRecord | None:
        """What became of one address: its page is found by halving, as pages are in order."""
        partition = records.pages_partition(message.day, message.ref)
        low, high = 0, await self._page_count(message)
        while low < high:
            middle = (low + high) // 2
            page = await self._pages.get(partition, records.page_row(middle))
            if page is None:
                return None
            if address < records.read(page, "FirstAddress", str):
                high = middle
            elif address > records.read(page, "LastAddress", str):
                low = middle + 1
            else:
                records_of_page = await self.page_emails(message, middle)
                return next((r for r in records_of_page if r.address == address), None)
        return None

    async def _page_count(self, message: Message) -> int:
        """Pages are numbered without gaps: the queued ones, and perhaps a few more."""
        last = message.queued_pages
        async for page in self.pages(message, message.queued_pages):
            last = int(page.row) + 1
        return last


def _pending(entity: Entity, page: int) -> EmailRecord:
    return EmailRecord(
        address=Address(entity.row),
        outcome=EmailOutcome.PENDING,
        page=page,
        tries=records.read_optional(entity, "Tries", int) or 0,
        reply=records.read_optional(entity, "Reply", str) or "",
        was_in_doubt=records.read_optional(entity, "WasInDoubt", bool) or False,
    )


def _done(entity: Entity, page: int) -> EmailRecord:
    return msgspec.structs.replace(
        _pending(entity, page), outcome=EmailOutcome(records.read(entity, "Outcome", str))
    )
