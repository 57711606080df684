"""Tables: each is an SQLite table of its own, clustered by its key, with properties as JSON."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from postroom.storage import codec
from postroom.storage.checked import CheckedTable, described, key_of
from postroom.storage.contract import (
    Delete,
    Entity,
    Insert,
    KeyRange,
    Merge,
    Operation,
    QueryResult,
    Replace,
    Upsert,
)
from postroom.storage.errors import AlreadyExists, NotFound, StaleETag
from postroom.storage.filters import Filter
from postroom.storage.sqlite import conditions
from postroom.storage.sqlite.errors import is_missing_table
from postroom.storage.sqlite.reader import Readers
from postroom.storage.sqlite.writer import Writer
from postroom.storage.tokens import decode_token, encode_token
from postroom.storage.values import check_properties

PREFIX = "t_"

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    partition TEXT NOT NULL,
    row TEXT NOT NULL,
    etag INTEGER NOT NULL,
    properties TEXT NOT NULL,
    PRIMARY KEY (partition, row)
) STRICT, WITHOUT ROWID
"""
_GET = "SELECT etag, properties FROM {table} WHERE partition = ? AND row = ?"
_INSERT = "INSERT INTO {table} VALUES (:partition, :row, :etag, :properties)"
_UPSERT = (
    "INSERT INTO {table} VALUES (:partition, :row, :etag, :properties)"
    " ON CONFLICT DO UPDATE SET etag = excluded.etag, properties = excluded.properties"
)
# A condition without an ETag compares the row's own with itself.
_REPLACE = (
    "UPDATE {table} SET etag = :etag, properties = :properties"
    " WHERE partition = :partition AND row = :row AND etag = coalesce(:expected, etag)"
)
_DELETE = (
    "DELETE FROM {table}"
    " WHERE partition = :partition AND row = :row AND etag = coalesce(:expected, etag)"
)

# No row has this ETag: what a caller gives that was never one of ours is stale.
_NO_ETAG = -1


class _Unfit(Exception):
    """A row was not as an operation expected; which one is found out after the rollback."""


class SqliteTable(CheckedTable):
    def __init__(self, name: str, writer: Writer, readers: Readers, known: set[str]) -> None:
        super().__init__(name)
        self._writer = writer
        self._readers = readers
        self._known = known  # tables that this process has seen: shared by the whole store
        self._table = f'"{PREFIX}{name}"'

    async def _get(self, partition: str, row: str) -> Entity | None:
        def read(connection: apsw.Connection) -> Entity | None:
            for etag, properties in self._rows(connection, _GET, (partition, row)):
                return Entity(partition, row, codec.decode(properties), str(etag))
            return None

        return await self._readers.run(read)

    async def _query(
        self,
        partitions: KeyRange,
        rows: KeyRange,
        where: Filter | None,
        limit: int,
        after: str | None,
    ) -> QueryResult:
        last = decode_token(after, 2) if after is not None else None
        condition, values = conditions.of_query(partitions, rows, where, last)
        sql = (
            f"SELECT partition, row, properties, etag FROM {{table}} WHERE {condition}"
            " ORDER BY partition, row LIMIT ?"
        )

        def read(connection: apsw.Connection) -> list[Entity]:
            return [
                Entity(partition, row, codec.decode(properties), str(etag))
                for partition, row, properties, etag in self._rows(
                    connection, sql, (*values, limit + 1)
                )
            ]

        found = await self._readers.run(read)
        if len(found) <= limit:
            return QueryResult(found, None)
        found.pop()
        return QueryResult(found, encode_token(found[-1].partition, found[-1].row))

    async def _apply(self, partition: str, operations: Sequence[Operation]) -> list[str]:
        # One ETag for the batch: each row occurs in it once, so it is new for every row.
        etag = random.getrandbits(62)
        rows = [_bound(operation, etag) for operation in operations]

        def write(connection: apsw.Connection) -> None:
            if self.name not in self._known:
                connection.execute(_CREATE.format(table=self._table))
            try:
                self._write(connection, operations, rows)
            except _Unfit:
                connection.execute("ROLLBACK TO job")
                self._explain(connection, operations)
                raise

        await self._writer.run(write)
        self._known.add(self.name)
        return ["" if isinstance(operation, Delete) else str(etag) for operation in operations]

    def _write(
        self,
        connection: apsw.Connection,
        operations: Sequence[Operation],
        rows: list[dict[str, object]],
    ) -> None:
        """Do all operations, a kind after the other: no row occurs twice, so order is free."""
        before = connection.total_changes()
        kinds: dict[type[Operation], list[dict[str, object]]] = {}
        for operation, row in zip(operations, rows, strict=True):
            if isinstance(operation, Merge):
                self._merge(connection, operation, row)
            kinds.setdefault(type(operation), []).append(row)
        for kind, bound in kinds.items():
            try:
                connection.executemany(_SQL[kind].format(table=self._table), bound)
            except apsw.ConstraintError as exc:
                raise _Unfit from exc
        if connection.total_changes() - before != len(operations):
            raise _Unfit

    def _merge(self, connection: apsw.Connection, operation: Merge, row: dict[str, object]) -> None:
        """Complete a merge's properties, which only the writing thread can see unchanged."""
        for _, properties in self._rows(connection, _GET, (row["partition"], row["row"])):
            merged = {**codec.decode(properties), **operation.entity.properties}
            check_properties(merged)
            row["properties"] = codec.encode(merged)

    def _explain(self, connection: apsw.Connection, operations: Sequence[Operation]) -> None:
        """Raise the error of the first operation that does not fit the rows as they are."""
        for position, operation in enumerate(operations):
            partition, row = key_of(operation)
            what = described(self.name, partition, row)
            found = next(self._rows(connection, _GET, (partition, row)), None)
            if isinstance(operation, Insert):
                if found is not None:
                    raise AlreadyExists(what, position)
            elif not isinstance(operation, Upsert):
                if found is None:
                    raise NotFound(what, position)
                if operation.etag is not None and operation.etag != str(found[0]):
                    raise StaleETag(what, position)

    def _rows(
        self, connection: apsw.Connection, sql: str, values: Sequence[object]
    ) -> Iterator[tuple[Any, ...]]:
        try:
            yield from connection.execute(sql.format(table=self._table), values)
        except apsw.SQLError as exc:
            if not is_missing_table(exc):
                raise


_SQL: dict[type[Operation], str] = {
    Insert: _INSERT,
    Upsert: _UPSERT,
    Replace: _REPLACE,
    Merge: _REPLACE,
    Delete: _DELETE,
}


def _bound(operation: Operation, etag: int) -> dict[str, object]:
    """The values that an operation's statement takes."""
    if isinstance(operation, Delete):
        return {
            "partition": operation.partition,
            "row": operation.row,
            "expected": _expected(operation.etag),
        }
    entity = operation.entity
    # A merge's properties depend on the row: the writing thread fills them in.
    properties = "" if isinstance(operation, Merge) else codec.encode(entity.properties)
    bound: dict[str, object] = {
        "partition": entity.partition,
        "row": entity.row,
        "etag": etag,
        "properties": properties,
    }
    if isinstance(operation, Replace | Merge):
        bound["expected"] = _expected(operation.etag)
    return bound


def _expected(etag: str | None) -> int | None:
    if etag is None:
        return None
    return int(etag) if etag.isdecimal() and len(etag) < 20 else _NO_ETAG
