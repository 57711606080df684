"""The conversion that merges subscribers whose addresses differ only in case.

Earlier, each spelling was a separate subscriber: `email:Bob@x` and `email:bob@x`. Now there is one
row, `email:bob@x`, with the spelling to send to as a property.

- The spelling that was verified first is kept; if none was, the one that was added first. Links of
  the others lead to it. It is verified if any of them was, and blocked if any of them was.
- A subscriber who unsubscribed under another spelling is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.services import entities
from postroom.services.audience.signup.unsubscribes import UnsubscribedFrom, Unsubscribes
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Delete, Entity, Insert, KeyRange, Merge, Replace, Store

_ROWS: Final = 1000  # per read
_AT_ONCE: Final = 32
_LOG_EVERY: Final = 50_000  # subscribers

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
        self._unsubscribes = Unsubscribes(store)
        self._name = name
        self._keep = keep
        self._checked = self._renamed = self._merged = self._removed = 0

    async def run(self) -> None:
        left = await self._unsubscribes.of_list(self._name)
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start, logged = within.start, 0
        while True:
            found = await self._rows.read(
                _Row, self._name, KeyRange(start, within.stop), limit=_ROWS
            )
            await self._convert_some(found, left)
            await self._keep()
            self._checked += len(found)
            if self._checked - logged >= _LOG_EVERY:
                logged = self._checked
                _log.info("list %s: %s subscribers checked so far", self._name, f"{logged:,}")
            if len(found) < _ROWS:
                break
            start = entities.key_after(next(reversed(found)))
        if self._renamed or self._merged or self._removed:
            _log.info(
                "list %s: %d subscribers got a new key, %d were merged, %d were removed",
                self._name,
                self._renamed,
                self._merged,
                self._removed,
            )

    async def _convert_some(self, found: dict[str, _Row], left: UnsubscribedFrom) -> None:
        work = []
        for row, subscriber in found.items():
            address = Address(row.removeprefix(entities.EMAIL_PREFIX))
            key_row = entities.email_row(address)
            key = AddressKey(Address(key_row.removeprefix(entities.EMAIL_PREFIX)))
            if len(left) and left.may_hold(key):
                left_at = await self._unsubscribes.left_at(self._name, key)
                if left_at is not None and left_at > subscriber.CreatedAt:
                    work.append((self._remove, row))
                    continue
            if key_row != row:
                work.append((self._rename, row))
        for begin in range(0, len(work), _AT_ONCE):
            some = work[begin : begin + _AT_ONCE]
            await asyncio.gather(*(self._change(change, row) for change, row in some))

    async def _change(self, change: Callable[[Entity], Awaitable[None]], row: str) -> None:
        """Read a row again and change it, unless it is gone; repeat if it has just been changed."""

        async def attempt() -> None:
            found = await self._rows.get(self._name, row)
            if found is not None:
                await change(found)

        await retry_on_conflict(attempt, "subscriber", row.removeprefix(entities.EMAIL_PREFIX))

    async def _remove(self, found: Entity) -> None:
        """Remove a subscriber who unsubscribed, under another spelling, after this row was
        written."""
        subscriber = entities.subscriber_from(found)
        await self._rows.apply(
            [
                Delete(self._name, found.row, found.etag),
                Delete(self._name, entities.guid_row(subscriber.guid)),
            ]
        )
        self._removed += 1
        _log.warning(
            "list %s: %s is removed, because the address was unsubscribed in another spelling",
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
            "list %s: %s were merged into one subscriber, %s (%s)",
            self._name,
            " and ".join(each.address for each in both),
            merged.address,
            "blocked" if merged.blocked else "verified" if merged.verified else "not verified",
        )


def merge(subscribers: list[Subscriber]) -> Subscriber:
    """Merge subscribers into one, as the module's docstring describes."""
    kept, *others = sorted(
        subscribers,
        key=lambda each: (not each.verified, each.verified_at or each.created_at, each.created_at),
    )
    guids = [guid for each in (kept, *others) for guid in (each.guid, *each.merged_guids)]
    former = [key for each in (kept, *others) for key in each.former_addresses]
    return msgspec.structs.replace(
        kept,
        created_at=min(each.created_at for each in subscribers),
        blocked=next((each.blocked for each in (kept, *others) if each.blocked), ""),
        merged_guids=tuple(guid for guid in dict.fromkeys(guids) if guid != kept.guid),
        former_addresses=tuple(dict.fromkeys(former)),
    )
