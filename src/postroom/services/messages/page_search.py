"""Finding the pages of a message that may hold an address, without reading the others.

Pages are in the order of their emails' rows, and each says where it begins and ends, so a page is
found by halving. Rows are address keys from `Message.first_keyed_page` on; before it, they are
spellings, and an address may be on several pages: each spelling was a subscriber of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.spellings import next_spelling
from postroom.domain.messages.messages import Message
from postroom.services import entities
from postroom.storage import Entity, KeyRange, Store

_MOST_JUMPS = 100  # between spellings, in one message: as many as addresses have letters, mostly


class PageSearch:
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
        """Pages are numbered without gaps: the queued ones, and perhaps a few more."""
        count = message.queued_pages
        async for page in self.pages(message, message.queued_pages):
            count = int(page.row) + 1
        return count
