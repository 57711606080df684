"""Suppressing many addresses at once, such as those of an import.

In batches, and in this order: a work item that repeats the last step a little later, the index, the
suppressions, and then the rows of subscribers on the lists. After an interruption, the work item
still writes the rows of every address that was suppressed.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.suppressions import Suppression
from postroom.domain.messages.pages import SUPPRESS_QUEUE
from postroom.services.audience.lists import ListService
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.audience.suppression.suppression_items import apply_to_many
from postroom.services.audience.suppression.suppression_rows import SuppressionRows
from postroom.services.concurrency import all_of, retry_on_conflict
from postroom.services.row_ranges import neighbours
from postroom.storage import Conflict, Store

_BATCH: Final = 100
_NEIGHBOURS: Final = 49  # addresses that one query finds
_AT_ONCE: Final = 16
_AGAIN_AFTER: Final = 60.0  # seconds
_LISTS_AT_ONCE: Final = 100

T = TypeVar("T")


async def at_once(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all, some at the same time."""
    left = iter(works)

    async def work() -> None:
        for each in left:
            await each

    await all_of(work() for _ in range(_AT_ONCE))


class ManySuppressions:
    def __init__(
        self, store: Store, rows: SuppressionRows, lists: ListService, subscribers: SubscriberRows
    ) -> None:
        self._rows = rows
        self._work = store.queue(SUPPRESS_QUEUE)
        self._lists = lists
        self._subscribers = subscribers

    async def suppress(self, new: Sequence[Suppression], *, skip: ListName | None = None) -> None:
        """Suppress addresses; one that another process suppresses for as long at this moment keeps
        its suppression. The rows of subscribers are written on all lists except `skip`."""
        for part in _batches(new, _BATCH):
            addresses = [each.address for each in part]
            await self._work.put(apply_to_many(addresses), delay=_AGAIN_AFTER)
            await self._rows.index_many(part)
        by_partition: dict[str, list[Suppression]] = {}
        for each in new:
            by_partition.setdefault(each.digest[:2], []).append(each)
        batches = [part for found in by_partition.values() for part in _batches(found, _BATCH)]
        await at_once(self._write(part) for part in batches)
        await self.apply([each.address for each in new], skip=skip)

    async def apply(self, addresses: Iterable[Address], *, skip: ListName | None = None) -> None:
        """Write the suppressions of addresses onto their rows on each list. Can be repeated."""
        keys = sorted({address_key(each) for each in addresses})
        after: str | None = None
        while keys:
            found = await self._lists.slice(limit=_LISTS_AT_ONCE, after=after)
            await at_once(
                self._apply_on(each.name, part)
                for each in found.lists
                if each.name != skip
                for part in _batches(keys, _NEIGHBOURS)
            )
            if (after := found.next) is None:
                return

    async def _apply_on(self, name: ListName, keys: Sequence[AddressKey]) -> None:
        found = await neighbours(self._subscribers.table, name, keys)
        for key in found.keys() & set(keys):
            await self._subscribers.block_suppressed(name, key)

    async def _write(self, part: Sequence[Suppression]) -> None:
        """Write suppressions of one partition; one by one if some of the addresses have others."""
        try:
            await self._rows.insert_many(part)
        except Conflict:
            for each in part:
                await self._write_one(each)

    async def _write_one(self, new: Suppression) -> None:
        async def attempt() -> None:
            known = await self._rows.find(new.address, new.list_name)
            if known is None or not known.is_at_least(new):
                await self._rows.write(new, known)
            elif known.created_at != new.created_at:
                await self._rows.remove_from_index(new)

        await retry_on_conflict(attempt, "suppression", new.address)


def is_covered(new: Suppression, known: Iterable[Suppression]) -> bool:
    """Return whether one of the known suppressions of an address does what a new one would."""
    return any(each.list_name in (None, new.list_name) and each.is_at_least(new) for each in known)


def _batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
