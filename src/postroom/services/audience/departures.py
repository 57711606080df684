"""Who left a list by their own act, so that no import puts them back behind their back.

A row for each, of the list and a digest of the address: whoever reads the table learns no address,
whoever has an address learns whether and when it left. Letters' case does not count. Signing up
and confirming again forgets the row; what an administrator does leaves it as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey
from postroom.domain.audience.lists import ListName
from postroom.services import entities
from postroom.storage import Batch, Conflict, Delete, Entity, KeyRange, NotFound, Store, Upsert

_DIGITS = 32  # of the digest, in hexadecimal: two addresses with the same ones do not happen
_KEY_DIGITS = 16  # of those, what fits an unsigned integer of 64 bits
_ROWS = 1000  # what one look at the store answers
_BATCH = 100  # the operations of one batch of the store


def departed_row(list_name: ListName, address: Address) -> str:
    """Return the row of an address, the same for all spellings.

    Coarser than the key of an address (`straße` is `strasse` here), as it has always been: digests
    cannot be converted, and a departure that covers too much only asks for a sign-up.
    """
    digest = hashlib.sha256(f"{list_name} {address.casefold()}".encode())
    return digest.hexdigest()[:_DIGITS]


class DepartedFrom:
    """Everybody who left one list, eight bytes each: whether an address may be one of them."""

    def __init__(self, list_name: ListName, keys: array[int]) -> None:
        self._list = list_name
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def may_hold(self, address: Address) -> bool:
        """False is certain; after True, `Departures.left_at` is."""
        key = _key(departed_row(self._list, address))
        place = bisect_left(self._keys, key)
        return place < len(self._keys) and self._keys[place] == key


class Departures:
    def __init__(self, store: Store) -> None:
        self._rows = store.table(entities.DEPARTED)

    def noting(self, list_name: ListName, address: Address, at: datetime) -> Batch:
        """The step that remembers a departure; it comes before the one that removes."""
        row = departed_row(list_name, address)
        return Batch(entities.DEPARTED, [Upsert(Entity(list_name, row, {"LeftAt": at}))])

    async def note_many(
        self, list_name: ListName, addresses: Sequence[AddressKey], at: datetime
    ) -> None:
        """Remember that these addresses left; those who are remembered keep their time."""
        known = await asyncio.gather(*(self.left_at(list_name, each) for each in addresses))
        rows = {
            departed_row(list_name, address)
            for address, left_at in zip(addresses, known, strict=True)
            if left_at is None
        }
        upserts = [Upsert(Entity(list_name, row, {"LeftAt": at})) for row in sorted(rows)]
        for start in range(0, len(upserts), _BATCH):
            await self._rows.apply(upserts[start : start + _BATCH])

    async def left_at(self, list_name: ListName, address: Address) -> datetime | None:
        """When the owner of an address left a list; None: did not, or came back."""
        found = await self._rows.get(list_name, departed_row(list_name, address))
        return None if found is None else entities.read(found, "LeftAt", datetime)

    async def forget(self, list_name: ListName, address: Address) -> bool:
        """Whether there was something to forget. Can be repeated."""
        row = departed_row(list_name, address)
        if await self._rows.get(list_name, row) is None:
            return False
        try:
            await self._rows.delete(list_name, row)
        except NotFound:
            return False  # by somebody else at this moment
        return True

    async def of_list(self, list_name: ListName) -> DepartedFrom:
        """All of a list: one look where there are none, and a few megabytes for a million."""
        keys = array("Q")
        rows = KeyRange()
        while True:
            # In the order of rows, and so in the order of numbers.
            found = await self._rows.read(_Nothing, list_name, rows, limit=_ROWS)
            keys.extend(map(_key, found))
            if len(found) < _ROWS:
                return DepartedFrom(list_name, keys)
            rows = KeyRange(start=entities.behind(next(reversed(found))))

    async def remove_all(
        self, list_name: ListName, are_ours: Callable[[], Awaitable[bool]]
    ) -> None:
        """All rows of a list that is being deleted. Can be repeated.

        `are_ours` is asked after each look: a list that was made anew under the name keeps what it
        has, also if it comes between the look and the removal, which is under the rows' ETags.
        """
        while True:
            found = await self._rows.query(KeyRange.only(list_name), limit=_BATCH)
            if not found.entities or not await are_ours():
                return
            deletions = [Delete(list_name, each.row, each.etag) for each in found.entities]
            try:
                await self._rows.apply(deletions)
            except Conflict:
                continue  # somebody else removes, too, or a last one left: look again


class _Nothing(msgspec.Struct, frozen=True, gc=False):
    """Of a row, the key alone."""


def _key(row: str) -> int:
    return int(row[:_KEY_DIGITS], 16)
