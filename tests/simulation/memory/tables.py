"""The tables of the engine in memory."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from postroom.storage import (
    Delete,
    Entity,
    KeyRange,
    Merge,
    Operation,
    Properties,
    QueryResult,
    SingleOperation,
)
from postroom.storage.checked_tables import WITHOUT_ETAG, CheckedTable, key_of, misfit, singly
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.contract.tables import S
from postroom.storage.filters import Filter, matches
from postroom.storage.values import check_properties
from tests.simulation.memory.data import (
    Connection,
    Partition,
)


class MemoryTable(CheckedTable):
    def __init__(self, name: str, store: Connection) -> None:
        super().__init__(name)
        self._store = store

    async def _get(self, partition: str, row: str) -> Entity | None:
        def act() -> Entity | None:
            found = self._partitions().get(partition)
            return None if found is None else _entity(partition, row, found)

        return await self._store.run(act)

    async def _apply(self, partition: str, operations: Sequence[Operation]) -> list[str]:
        def act() -> list[str]:
            found = self._partitions().get(partition) or Partition()
            etags = {row: etag for row, (_, etag) in found.rows.items()}
            error = misfit(self.name, operations, etags)
            if error is not None:
                raise error
            self._check_merges(found, operations)
            tables = self._store.data.tables.setdefault(self.name, {})
            tables[partition] = found
            for each in singly(operations):
                self._write(found, each)
            return [
                "" if isinstance(each, WITHOUT_ETAG) else found.rows[key_of(each)[1]][1]
                for each in operations
            ]

        return await self._store.run(act)

    def _write(self, partition: Partition, operation: SingleOperation) -> None:
        if isinstance(operation, Delete):
            partition.remove(operation.row)
            return
        entity = operation.entity
        properties = {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in entity.properties.items()
        }
        if isinstance(operation, Merge):
            properties = {**partition.rows[entity.row][0], **properties}
        partition.put(entity.row, properties, f"e{self._store.data.number()}")
        self._store.data.written(self.name, Entity(entity.partition, entity.row, properties))

    def _check_merges(self, partition: Partition, operations: Sequence[Operation]) -> None:
        """Refuse what would be too large only together with what is there."""
        for each in operations:
            if isinstance(each, Merge):
                check_properties({**partition.rows[each.entity.row][0], **each.entity.properties})

    async def _merge_where(
        self, partition: str, rows: Sequence[str], changes: Properties, where: Filter
    ) -> dict[str, Entity]:
        def act() -> dict[str, Entity]:
            found = self._partitions().get(partition) or Partition()
            fit = [row for row in rows if row in found.rows and matches(where, found.rows[row][0])]
            for row in fit:
                self._write(found, Merge(Entity(partition, row, changes)))
            return {row: Entity(partition, row, *found.rows[row]) for row in fit}

        return await self._store.run(act)

    async def _query(
        self,
        partitions: KeyRange,
        rows: KeyRange,
        where: Filter | None,
        limit: int,
        after: str | None,
    ) -> QueryResult:
        behind = None if after is None else tuple(decode_token(after, 2))

        def act() -> QueryResult:
            found: list[Entity] = []
            for partition in sorted(filter(within(partitions), self._partitions())):
                for entity in self._within(partition, rows, where):
                    if behind is not None and (partition, entity.row) <= behind:
                        continue
                    if len(found) == limit:
                        last = found[-1]
                        return QueryResult(found, encode_token(last.partition, last.row))
                    found.append(entity)
            return QueryResult(found, None)

        return await self._store.run(act)

    async def _read(
        self, kind: type[S], partition: str, rows: KeyRange, where: Filter | None, limit: int
    ) -> dict[str, S]:
        def act() -> dict[str, S]:
            found = itertools.islice(self._within(partition, rows, where), limit)
            return {entity.row: _struct(kind, entity) for entity in found}

        return await self._store.run(act)

    def _partitions(self) -> dict[str, Partition]:
        return self._store.data.tables.get(self.name, {})

    def _within(
        self, partition: str, rows: KeyRange, where: Filter | None
    ) -> itertools.chain[Entity]:
        found = self._partitions().get(partition) or Partition()
        start = 0 if rows.start is None else bisect_left(found.keys, rows.start)
        keys = itertools.takewhile(within(rows), itertools.islice(found.keys, start, None))
        entities = (_existing(partition, key, found) for key in keys)
        return itertools.chain(
            each for each in entities if where is None or matches(where, each.properties)
        )


def within(keys: KeyRange) -> Callable[[str], bool]:
    """Return the test whether a key is in the range."""

    def is_within(key: str) -> bool:
        if keys.start is not None and key < keys.start:
            return False
        if keys.stop is None or key < keys.stop:
            return True
        return keys.including_stop and key == keys.stop

    return is_within


def _entity(partition: str, row: str, rows: Partition) -> Entity | None:
    return _existing(partition, row, rows) if row in rows.rows else None


def _existing(partition: str, row: str, rows: Partition) -> Entity:
    properties, etag = rows.rows[row]
    return Entity(partition, row, dict(properties), etag)


def _struct(kind: type[S], entity: Entity) -> S:
    """Read what the struct names, as strictly as the other engines do."""
    fields = _fields(kind)
    wanted: dict[str, Any] = {k: v for k, v in entity.properties.items() if k in fields}
    return msgspec.convert(wanted, kind, builtin_types=(datetime, bytes))


@lru_cache
def _fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))
