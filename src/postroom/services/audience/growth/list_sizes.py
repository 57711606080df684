"""The sizes of lists.

Small lists are counted immediately, large ones have a count that is kept up to date. A large list
without a count (just imported, for example) is counted once while the page waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.services import entities
from postroom.services.audience.growth.list_growth import GrowthService, ListCounts, ListSize
from postroom.storage import KeyRange, Store

_SMALL: Final = 500  # subscribers, which are counted immediately


class CurrentSize(msgspec.Struct, frozen=True):
    """`recipients` are verified and not blocked. `counted_at` is None if the size is exact;
    otherwise it is the time of the count, to which later changes have been added."""

    subscribers: int
    verified: int
    recipients: int
    counted_at: datetime | None = None


class ListSizes:
    def __init__(self, store: Store, growth: GrowthService, counts: ListCounts) -> None:
        self._rows = store.table(entities.LISTS)
        self._growth = growth
        self._counts = counts

    async def of(self, names: Sequence[ListName]) -> dict[ListName, CurrentSize]:
        """Return the sizes of these lists."""
        known = await self.counted()
        found: dict[ListName, CurrentSize] = {}
        unsure = []
        for name in names:
            if name in known and known[name].subscribers > _SMALL:
                found[name] = known[name]
            else:
                unsure.append(name)
        counted = await asyncio.gather(*map(self._count, unsure))
        for name, size in zip(unsure, counted, strict=True):
            found[name] = size or _size(await self._growth.count_now(name))
        return found

    async def counted(self) -> dict[ListName, CurrentSize]:
        """Return the sizes of all lists that have a count, with one query."""
        await self._counts.write()
        return {size.name: _size(size) for size in await self._growth.sizes()}

    async def total(self, names: Sequence[ListName]) -> CurrentSize:
        """Return the sizes of all lists together. `names` are some of them: those that were created
        since the last count are counted immediately."""
        known = await self.counted()
        fresh = await self.of([name for name in names if name not in known])
        sizes = [*known.values(), *fresh.values()]
        return CurrentSize(
            sum(size.subscribers for size in sizes),
            sum(size.verified for size in sizes),
            sum(size.recipients for size in sizes),
        )

    async def _count(self, name: ListName) -> CurrentSize | None:
        """Return the size of a small list; None if it is larger."""
        result = await self._rows.query(
            KeyRange.only(name), KeyRange.prefix(entities.EMAIL_PREFIX), limit=_SMALL
        )
        if result.next is not None:
            return None
        found = [entities.subscriber_from(row) for row in result.entities]
        verified = sum(each.verified for each in found)
        return CurrentSize(len(found), verified, sum(each.may_receive for each in found))


def _size(counted: ListSize) -> CurrentSize:
    return CurrentSize(
        counted.subscribers, counted.verified, counted.recipients, counted.counted_at
    )
