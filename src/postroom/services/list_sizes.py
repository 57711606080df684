"""How many subscribers lists have, for pages: small ones are counted, large ones were."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.lists import ListName
from postroom.services import records
from postroom.services.growth import GrowthService
from postroom.storage import KeyRange, Store

_SMALL: Final = 500  # subscribers that are counted while somebody waits


class Size(msgspec.Struct, frozen=True):
    """`counted_at` is None where it is exact at this moment."""

    subscribers: int
    verified: int
    counted_at: datetime | None = None


class ListSizes:
    def __init__(self, store: Store, growth: GrowthService) -> None:
        self._rows = store.table(records.LISTS)
        self._growth = growth

    async def of(self, names: Sequence[ListName]) -> dict[ListName, Size]:
        """The sizes of lists, but for large ones that have not been counted yet."""
        known = await self.counted()
        found: dict[ListName, Size] = {}
        unsure = []
        for name in names:
            if name in known and known[name].subscribers > _SMALL:
                found[name] = known[name]
            else:
                unsure.append(name)
        for name, counted in zip(
            unsure, await asyncio.gather(*map(self._count, unsure)), strict=True
        ):
            if counted is not None:
                found[name] = counted
            elif name in known:  # has grown since
                found[name] = known[name]
        return found

    async def counted(self) -> dict[ListName, Size]:
        """The last count of every list: one look, however many there are."""
        return {
            size.name: Size(size.subscribers, size.verified, size.counted_at)
            for size in await self._growth.sizes()
        }

    async def _count(self, name: ListName) -> Size | None:
        result = await self._rows.query(
            KeyRange.only(name), KeyRange.prefix(records.EMAIL_PREFIX), limit=_SMALL
        )
        if result.next is not None:
            return None
        verified = sum(row.properties.get("Verified") is True for row in result.entities)
        return Size(len(result.entities), verified)
