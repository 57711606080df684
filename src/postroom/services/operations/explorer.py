"""The store as it is: tables, partitions, rows and blobs, to look at and to mend.

Every look is a query on keys, however large a table is. `explorer_rules` says which tables are
shown and which can be changed; of all others only the numbers and times are shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from postroom.domain.errors import NoSuch, Overtaken
from postroom.services.operations.explorer_rules import (
    CHANGEABLE,
    check_changeable,
    check_container_changeable,
    check_readable,
    reason_closed,
)
from postroom.storage import (
    EVERY_KEY,
    BlobInfo,
    BlobListing,
    Entity,
    KeyRange,
    NotFound,
    QueryResult,
    StaleETag,
    Store,
    Value,
)

MASK = "●●●●●●"
_KEYS_SHOWN = frozenset({"users"})
_CLOSED_ROWS = 100
_BLOBS = 1000  # that the store lists at once


class TableName(msgspec.Struct, frozen=True):
    """`closed` says why a table's values are hidden; empty for one that is shown."""

    name: str
    closed: str
    can_change: bool


class Partitions(msgspec.Struct, frozen=True):
    """Some partition keys in order; `next` goes on after the last."""

    keys: list[str]
    next: str | None


class ExplorerService:
    def __init__(self, store: Store) -> None:
        self._store = store

    # -- tables ------------------------------------------------------------------------------

    async def tables(self) -> list[TableName]:
        return [
            TableName(name, reason_closed(name), name in CHANGEABLE)
            for name in await self._store.tables()
        ]

    async def partitions(
        self, table: str, *, prefix: str = "", after: str = "", limit: int = 50
    ) -> Partitions:
        """Which partitions a table has, by their keys: one look for each."""
        check_readable(table)
        rows = self._store.table(table)
        stop = KeyRange.prefix(prefix).stop
        start = _behind(after) if after else prefix or None
        found: list[str] = []
        while len(found) <= limit:
            first = (await rows.query(KeyRange(start, stop), limit=1)).entities
            if not first:
                return Partitions(found, None)
            found.append(first[0].partition)
            start = _behind(first[0].partition)
        return Partitions(found[:limit], found[limit - 1])

    async def rows(
        self,
        table: str,
        partition: str | None,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int = 50,
    ) -> QueryResult:
        """Rows of one partition, or of all (None), whose keys begin with `prefix`."""
        check_readable(table)
        partitions = EVERY_KEY if partition is None else KeyRange.only(partition)
        return await self._store.table(table).query(
            partitions, KeyRange.prefix(prefix), limit=limit, after=after
        )

    async def masked_rows(self, table: str) -> list[Entity]:
        """The first rows of a closed table: what there is, without what is secret."""
        found = await self._store.table(table).query(limit=_CLOSED_ROWS)
        return [_masked(table, entity) for entity in found.entities]

    async def entity(self, table: str, partition: str, row: str) -> Entity:
        """`NoSuch`; `NotNow` for a closed table."""
        check_readable(table)
        found = await self._store.table(table).get(partition, row)
        if found is None:
            raise NoSuch("entity", f"{partition}, {row}")
        return found

    async def save(self, table: str, entity: Entity, etag: str) -> None:
        """Replace all properties. `NoSuch`, `Overtaken`, `NotNow`."""
        check_changeable(table)
        name = f"{entity.partition}, {entity.row}"
        try:
            await self._store.table(table).replace(entity, etag)
        except NotFound as exc:
            raise NoSuch("entity", name) from exc
        except StaleETag as exc:
            raise Overtaken("entity", name) from exc

    async def delete(self, table: str, partition: str, row: str, etag: str) -> None:
        """`NoSuch`, `Overtaken`, `NotNow`."""
        check_changeable(table)
        try:
            await self._store.table(table).delete(partition, row, etag)
        except NotFound as exc:
            raise NoSuch("entity", f"{partition}, {row}") from exc
        except StaleETag as exc:
            raise Overtaken("entity", f"{partition}, {row}") from exc

    # -- blobs -------------------------------------------------------------------------------

    async def containers(self) -> list[str]:
        return await self._store.containers()

    async def blobs(
        self, container: str, *, prefix: str = "", after: str | None = None, limit: int = 50
    ) -> BlobListing:
        return await self._store.container(container).list(prefix, limit=limit, after=after)

    async def all_blobs(
        self, container: str, *, prefix: str = "", most: int
    ) -> list[BlobInfo] | None:
        """All of them at once, in the order of their names; None if there are more than `most`."""
        found: list[BlobInfo] = []
        after: str | None = None
        while len(found) <= most:
            listing = await self.blobs(container, prefix=prefix, after=after, limit=_BLOBS)
            found += listing.blobs
            if (after := listing.next) is None:
                return found if len(found) <= most else None
        return None

    async def blob(self, container: str, name: str) -> BlobInfo:
        """`NoSuch`."""
        found = await self._store.container(container).info(name)
        if found is None:
            raise NoSuch("blob", name)
        return found

    def content(self, container: str, name: str) -> AsyncIterator[bytes]:
        return self._store.container(container).stream(name)

    async def delete_blob(self, container: str, name: str, etag: str) -> None:
        """`NoSuch`, `Overtaken`; `NotNow` for a container that is not on the list."""
        check_container_changeable(container)
        try:
            await self._store.container(container).delete(name, etag)
        except NotFound as exc:
            raise NoSuch("blob", name) from exc
        except StaleETag as exc:
            raise Overtaken("blob", name) from exc


def _behind(key: str) -> str:
    """The first key that can follow this one: no key has a character below the space."""
    return f"{key} "


def _masked(table: str, entity: Entity) -> Entity:
    """Return an entity with the names of its properties and none of their values."""
    properties: dict[str, Value] = dict.fromkeys(entity.properties, MASK)
    if table in _KEYS_SHOWN:
        return Entity(entity.partition, entity.row, properties)
    return Entity(MASK, MASK, properties)
