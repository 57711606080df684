"""Ids that subscribers had in another tool, so that its unsubscribe links keep working.

| table       | partition                        | row            | holds          |
|-------------|----------------------------------|----------------|----------------|
| `foreignid` | two digits of a digest of the id | `ID,LIST`      | SubscriberGUID |
|             | `of-` and two digits of the GUID | `GUID,ID,LIST` | nothing        |

An import writes them after the subscribers. A row of someone who left leads nowhere, like one of
our old links. An id allows nothing but unsubscribing. See docs/adr/0042. The second kind of rows
is written first and removed last: it finds all ids of a person, to show and to erase them.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.errors import Invalid
from postroom.services import entities
from postroom.storage import Conflict, Delete, Entity, KeyRange, Store, Upsert

TABLE: Final = "foreignid"
_BATCH: Final = 100  # the operations of one batch of the store
_GUID: Final = "SubscriberGUID"
_ID: Final = re.compile(r"[A-Za-z0-9._~=-]{10,100}", re.ASCII)


def parse_foreign_id(text: str) -> str:
    """Return an id as it is stored. `Invalid` if others could guess it: anyone with the id can
    unsubscribe its owner."""
    found = text.strip()
    if not _ID.fullmatch(found) or found.isdigit():
        problem = "must have 10 to 100 letters, digits and . _ ~ = -, and not only digits, not"
        raise Invalid("foreign_id", f"the id in old unsubscribe links {problem} {found[:50]!r}")
    return found


class ForeignId(msgspec.Struct, frozen=True, order=True):
    """An id that a subscriber of a list had in another tool."""

    list_name: ListName
    id: str


class ForeignIds:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def note(self, list_name: ListName, owners: Mapping[str, SubscriberGuid]) -> None:
        """Record which subscribers ids belong to. Can be repeated."""
        await self._upsert(
            Entity(_partition_of(guid), f"{guid},{each},{list_name}", {})
            for each, guid in owners.items()
        )
        await self._upsert(
            Entity(_partition(each), f"{each},{list_name}", {_GUID: guid})
            for each, guid in owners.items()
        )

    async def _upsert(self, rows: Iterable[Entity]) -> None:
        partitions: dict[str, list[Upsert]] = defaultdict(list)
        for each in rows:
            partitions[each.partition].append(Upsert(each))
        for upserts in partitions.values():
            for start in range(0, len(upserts), _BATCH):
                await self._table.apply(upserts[start : start + _BATCH])

    async def owners(self, foreign_id: str) -> list[tuple[ListName, SubscriberGuid]]:
        """Return the subscribers that an id belongs to, on each list that it was imported into."""
        found = await self._table.query(
            KeyRange.only(_partition(foreign_id)), KeyRange.prefix(f"{foreign_id},")
        )
        return [
            (ListName(each.row.partition(",")[2]), SubscriberGuid(entities.read(each, _GUID, str)))
            for each in found.entities
        ]

    async def of(self, guids: Collection[SubscriberGuid]) -> list[ForeignId]:
        """Return all ids that subscribers had in other tools, sorted."""
        return sorted({_id_in(row) for guid in guids async for row in self._rows_of(guid)})

    async def forget(self, guids: Collection[SubscriberGuid]) -> None:
        """Remove all ids of subscribers. Can be repeated."""
        for guid in guids:
            async for row in self._rows_of(guid):
                found = _id_in(row)
                leading = await self._table.get(
                    _partition(found.id), f"{found.id},{found.list_name}"
                )
                if leading is not None and leading.properties.get(_GUID) == guid:
                    await self._remove(leading)
                await self._remove(row)

    def _rows_of(self, guid: SubscriberGuid) -> AsyncIterator[Entity]:
        return self._table.scan(KeyRange.only(_partition_of(guid)), KeyRange.prefix(f"{guid},"))

    async def remove_all(
        self, list_name: ListName, are_ours: Callable[[], Awaitable[bool]]
    ) -> None:
        """Remove all rows of a list that is being deleted. It reads the whole table. Can be
        repeated; a new list of that name keeps its rows, as in `Unsubscribes.remove_all`."""
        async for each in self._table.scan(KeyRange()):
            if each.row.rpartition(",")[2] == list_name:
                if not await are_ours():
                    return
                await self._remove(each)

    async def _remove(self, row: Entity) -> None:
        try:
            await self._table.apply([Delete(row.partition, row.row, row.etag)])
        except Conflict:
            return  # removed or written again by another process at this moment


def _id_in(row: Entity) -> ForeignId:
    """Return the id from one of the rows that find all ids of a subscriber."""
    _, each, list_name = row.row.split(",")
    return ForeignId(ListName(list_name), each)


def _partition_of(guid: SubscriberGuid) -> str:
    return f"of-{guid[:2]}"


def _partition(foreign_id: str) -> str:
    return hashlib.sha256(foreign_id.encode()).hexdigest()[:2]
