"""The conversion that makes addresses which differ only in case one subscriber.

Before it, each spelling was a subscriber of its own: `email:Bob@x` and `email:bob@x`. Afterwards
there is `email:bob@x`, which says how the address is spelled.

- Of several spellings the first that was verified stays, else the first that was added. The others'
  links lead to it. It is blocked if one of them was, and verified if one of them was.
- A subscriber who has unsubscribed under another spelling is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey
from postroom.domain.audience.lists import ListName, Subscriber
from postroom.services import entities
from postroom.services.audience.departures import DepartedFrom, Departures
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Delete, Entity, Insert, KeyRange, Merge, Replace, Store

_ROWS: Final = 1000  # of one look at the store
_AT_ONCE: Final = 32
_TELL_EVERY: Final = 50_000  # subscribers

Keep: TypeAlias = Callable[[], Awaitable[None]]

_log = logging.getLogger(__name__)


class _Row(msgspec.Struct, frozen=True, gc=False):
    CreatedAt: datetime


async def convert(store: Store, keep: Keep) -> None:
    """Convert all lists."""
    index = store.table(entities.LIST_INDEX)
    names = [ListName(each.row) async for each in index.scan(KeyRange.only(entities.BY_NAME))]
    for name in names:
        await _ListConversion(store, name, keep).run()


class _ListConversion:
    def __init__(self, store: Store, name: ListName, keep: Keep) -> None:
        self._rows = store.table(entities.LISTS)
        self._departures = Departures(store)
        self._name = name
        self._keep = keep
        self._looked_at = self._renamed = self._merged = self._removed = 0

    async def run(self) -> None:
        left = await self._departures.of_list(self._name)
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start, told = within.start, 0
        while True:
            found = await self._rows.read(
                _Row, self._name, KeyRange(start, within.stop), limit=_ROWS
            )
            await self._convert_some(found, left)
            await self._keep()
            self._looked_at += len(found)
            if self._looked_at - told >= _TELL_EVERY:
                told = self._looked_at
                _log.info("list %s: %s subscribers so far", self._name, f"{told:,}")
            if len(found) < _ROWS:
                break
            start = entities.behind(next(reversed(found)))
        if self._renamed or self._merged or self._removed:
            _log.info(
                "list %s: %d subscribers have a new key, %d were merged, %d removed",
                self._name,
                self._renamed,
                self._merged,
                self._removed,
            )

    async def _convert_some(self, found: dict[str, _Row], left: DepartedFrom) -> None:
        work = []
        for row, subscriber in found.items():
            address = Address(row.removeprefix(entities.EMAIL_PREFIX))
            key_row = entities.email_row(address)
            key = AddressKey(Address(key_row.removeprefix(entities.EMAIL_PREFIX)))
            if len(left) and left.may_hold(key):
                left_at = await self._departures.left_at(self._name, key)
                if left_at is not None and left_at > subscriber.CreatedAt:
                    work.append((self._remove, row))
                    continue
            if key_row != row:
                work.append((self._rename, row))
        for begin in range(0, len(work), _AT_ONCE):
            some = work[begin : begin + _AT_ONCE]
            await asyncio.gather(*(self._change(change, row) for change, row in some))

    async def _change(self, change: Callable[[Entity], Awaitable[None]], row: str) -> None:
        """Change a row as it is now, unless it is gone. Somebody else may change it, too."""

        async def attempt() -> None:
            found = await self._rows.get(self._name, row)
            if found is not None:
                await change(found)

        await retry_on_conflict(attempt, "subscriber", row.removeprefix(entities.EMAIL_PREFIX))

    async def _remove(self, found: Entity) -> None:
        """They have unsubscribed after this row was written: it was another spelling's."""
        subscriber = entities.subscriber_from(found)
        await self._rows.apply(
            [
                Delete(self._name, found.row, found.etag),
                Delete(self._name, entities.guid_row(subscriber.guid)),
            ]
        )
        self._removed += 1
        _log.warning(
            "list %s: %s is removed: unsubscribed in another spelling",
            self._name,
            subscriber.address,
        )

    async def _rename(self, found: Entity) -> None:
        subscriber = entities.subscriber_from(found)
        there = await self._rows.get(self._name, entities.email_row(subscriber.address))
        if there is not None:
            await self._merge(found, there)
            return
        await self._rows.apply(
            [
                Insert(entities.subscriber_entity(subscriber)),
                Delete(self._name, found.row, found.etag),
            ]
        )
        self._renamed += 1

    async def _merge(self, one: Entity, there: Entity) -> None:
        both = [entities.subscriber_from(there), entities.subscriber_from(one)]
        merged = merge(both)
        lookups = [
            Merge(entities.lookup_entity(merged, guid))
            for guid in (merged.guid, *merged.merged_guids)
        ]
        await self._rows.apply(
            [
                Replace(entities.subscriber_entity(merged), there.etag),
                Delete(self._name, one.row, one.etag),
                *lookups,
            ]
        )
        self._merged += 1
        _log.warning(
            "list %s: %s are one subscriber now, %s, %s",
            self._name,
            " and ".join(each.address for each in both),
            merged.address,
            "blocked" if merged.blocked else "verified" if merged.verified else "not verified",
        )


def merge(subscribers: list[Subscriber]) -> Subscriber:
    """Return the one subscriber that these become: see the module's text."""
    kept, *others = sorted(
        subscribers,
        key=lambda each: (not each.verified, each.verified_at or each.created_at, each.created_at),
    )
    guids = [guid for each in (kept, *others) for guid in (each.guid, *each.merged_guids)]
    return msgspec.structs.replace(
        kept,
        created_at=min(each.created_at for each in subscribers),
        blocked=next((each.blocked for each in (kept, *others) if each.blocked), ""),
        merged_guids=tuple(guid for guid in dict.fromkeys(guids) if guid != kept.guid),
    )
