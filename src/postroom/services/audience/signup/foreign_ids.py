"""Ids that subscribers had in another tool, so that its unsubscribe links keep working.

| table       | partition                        | row       | holds          |
|-------------|----------------------------------|-----------|----------------|
| `foreignid` | two digits of a digest of the id | `ID,LIST` | SubscriberGUID |

An import writes them after the subscribers. A row of somebody who left leads nowhere, like an old
link of our own. An id opens nothing but unsubscribing. See docs/adr/0042.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from postroom.domain.audience.lists import ListName, SubscriberGuid
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


class ForeignIds:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def note(self, list_name: ListName, owners: Mapping[str, SubscriberGuid]) -> None:
        """Record which subscribers ids belong to. Can be repeated."""
        partitions: dict[str, list[Upsert]] = defaultdict(list)
        for each, guid in owners.items():
            partition = _partition(each)
            partitions[partition].append(
                Upsert(Entity(partition, f"{each},{list_name}", {_GUID: guid}))
            )
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

    async def forget(self, guids: Collection[SubscriberGuid]) -> None:
        """Remove all ids of subscribers. It reads the whole table. Can be repeated."""
        async for each in self._table.scan(KeyRange()):
            if each.properties.get(_GUID) in guids:
                await self._remove(each)

    async def remove_all(
        self, list_name: ListName, are_ours: Callable[[], Awaitable[bool]]
    ) -> None:
        """Remove all rows of a list that is being deleted. It reads the whole table. Can be
        repeated; a new list of that name keeps its rows, as in `Departures.remove_all`."""
        async for each in self._table.scan(KeyRange()):
            if each.row.partition(",")[2] == list_name:
                if not await are_ours():
                    return
                await self._remove(each)

    async def _remove(self, row: Entity) -> None:
        try:
            await self._table.apply([Delete(row.partition, row.row, row.etag)])
        except Conflict:
            return  # removed or written again by another process at this moment


def _partition(foreign_id: str) -> str:
    return hashlib.sha256(foreign_id.encode()).hexdigest()[:2]
