"""People who unsubscribed from a list, so that no import adds them again.

Each has a row with the list and a digest of the address, whatever its case: the table reveals no
address, but for a known address it says whether and when it unsubscribed. Signing up and confirming
again removes the row; changes by an administrator do not.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, AddressKey
from postroom.domain.audience.lists.lists import ListName
from postroom.services import entities
from postroom.storage import (
    Batch,
    Conflict,
    Delete,
    Entity,
    KeyRange,
    NotFound,
    Store,
    Upsert,
    ge,
)

_DIGITS = 32  # of the digest, in hexadecimal: enough to rule out a collision
_KEY_DIGITS = 16  # of those, as many as fit into 64 bits
_ROWS = 1000  # of one query
_BATCH = 100  # the operations of one batch of the store
_FRESH = 2.0  # seconds for which a count is good enough,
_SHARE = 200  # and counting takes at most 1/200 of the time
_REMEMBERED = 100  # counts


def departed_row(list_name: ListName, address: Address) -> str:
    """Return the row of an address, the same for all spellings.

    It is coarser than the address key (`straße` equals `strasse` here). It has to stay that way,
    because digests cannot be converted; in the worst case, someone has to sign up again.
    """
    digest = hashlib.sha256(f"{list_name} {address.casefold()}".encode())
    return digest.hexdigest()[:_DIGITS]


class UnsubscribedFrom:
    """Everyone who unsubscribed from one list, at eight bytes each."""

    def __init__(self, list_name: ListName, keys: array[int]) -> None:
        self._list = list_name
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def may_hold(self, address: Address) -> bool:
        """Return whether an address may have unsubscribed; `Unsubscribes.left_at` is exact."""
        key = _key(departed_row(self._list, address))
        place = bisect_left(self._keys, key)
        return place < len(self._keys) and self._keys[place] == key


class Unsubscribes:
    def __init__(self, store: Store) -> None:
        self._rows = store.table(entities.DEPARTED)
        self._counted: dict[tuple[ListName, datetime], _Counted] = {}

    def noting(self, list_name: ListName, address: Address, at: datetime) -> Batch:
        """Return the write that records an unsubscribe; it comes before the removal."""
        row = departed_row(list_name, address)
        return Batch(entities.DEPARTED, [Upsert(Entity(list_name, row, {"LeftAt": at}))])

    async def known(self, list_name: ListName, addresses: Sequence[AddressKey]) -> set[AddressKey]:
        """Return which of these addresses are recorded as having left."""
        found = await asyncio.gather(*(self.left_at(list_name, each) for each in addresses))
        return {
            address
            for address, left_at in zip(addresses, found, strict=True)
            if left_at is not None
        }

    async def note_many(self, list_name: ListName, left: Mapping[AddressKey, datetime]) -> None:
        """Record that these addresses left, and when."""
        rows = {departed_row(list_name, each): at for each, at in left.items()}
        upserts = [Upsert(Entity(list_name, row, {"LeftAt": rows[row]})) for row in sorted(rows)]
        for start in range(0, len(upserts), _BATCH):
            await self._rows.apply(upserts[start : start + _BATCH])

    async def left_at(self, list_name: ListName, address: Address) -> datetime | None:
        """Return when the owner of an address unsubscribed; None if they did not, or came back."""
        found = await self._rows.get(list_name, departed_row(list_name, address))
        return None if found is None else entities.read(found, "LeftAt", datetime)

    async def forget(self, list_name: ListName, address: Address) -> bool:
        """Remove the record of an unsubscribe; return whether there was one. Can be repeated."""
        row = departed_row(list_name, address)
        if await self._rows.get(list_name, row) is None:
            return False
        try:
            await self._rows.delete(list_name, row)
        except NotFound:
            return False  # removed by another process at this moment
        return True

    async def count_since(self, list_name: ListName, moment: datetime) -> int:
        """Return how many have unsubscribed since a moment, and have not come back.

        The number may be some seconds old: counting reads all unsubscribes from the list.
        """
        counted = self._counted.get((list_name, moment))
        began = clock.monotonic()
        if counted is None or began - counted.at > max(_FRESH, _SHARE * counted.took):
            count = await self._count_since(list_name, moment)
            counted = _Counted(count, began, clock.monotonic() - began)
            if len(self._counted) >= _REMEMBERED:
                self._counted.clear()
            self._counted[list_name, moment] = counted
        return counted.count

    async def _count_since(self, list_name: ListName, moment: datetime) -> int:
        count, rows = 0, KeyRange()
        while True:
            found = await self._rows.read(
                _Nothing, list_name, rows, where=ge("LeftAt", moment), limit=_ROWS
            )
            count += len(found)
            if len(found) < _ROWS:
                return count
            rows = KeyRange(start=entities.key_after(next(reversed(found))))

    async def of_list(self, list_name: ListName) -> UnsubscribedFrom:
        """Return all unsubscribes from a list: one query if there are none, 8 MB for a million."""
        keys = array("Q")
        rows = KeyRange()
        while True:
            # Rows come in order, and so do the numbers.
            found = await self._rows.read(_Nothing, list_name, rows, limit=_ROWS)
            keys.extend(map(_key, found))
            if len(found) < _ROWS:
                return UnsubscribedFrom(list_name, keys)
            rows = KeyRange(start=entities.key_after(next(reversed(found))))

    async def remove_all(
        self, list_name: ListName, are_ours: Callable[[], Awaitable[bool]]
    ) -> None:
        """Remove all rows of a list that is being deleted. Can be repeated.

        `are_ours` is called after each query: a new list of that name keeps its rows, even if it
        is created between query and removal, because rows are removed under their ETags.
        """
        while True:
            found = await self._rows.query(KeyRange.only(list_name), limit=_BATCH)
            if not found.entities or not await are_ours():
                return
            deletions = [Delete(list_name, each.row, each.etag) for each in found.entities]
            try:
                await self._rows.apply(deletions)
            except Conflict:
                continue  # changed by another process: look again


class _Counted(msgspec.Struct, frozen=True):
    """A count of unsubscribes, when it was taken, and for how many seconds."""

    count: int
    at: float
    took: float


class _Nothing(msgspec.Struct, frozen=True, gc=False):
    """Only the key of a row is read."""


def _key(row: str) -> int:
    return int(row[:_KEY_DIGITS], 16)
