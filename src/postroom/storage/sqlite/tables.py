"""Tables: each is an SQLite table, clustered by its key, with properties as JSON."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from postroom.storage import codec
from postroom.storage.checked_tables import (
    WITHOUT_ETAG,
    CheckedTable,
    check_batch,
    key_of,
    misfit,
    row_count,
    singly,
)
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.contract.tables import (
    BulkInsert,
    Delete,
    Entity,
    Insert,
    KeyRange,
    Merge,
    Operation,
    QueryResult,
    Replace,
    S,
    Upsert,
)
from postroom.storage.errors import StoreDamaged
from postroom.storage.filters import Filter, matches
from postroom.storage.sqlite import conditions
from postroom.storage.sqlite.connection import Readers
from postroom.storage.sqlite.errors import is_missing_table
from postroom.storage.sqlite.writer import UnexpectedData, Writer
from postroom.storage.values import Properties, check_properties

PREFIX = "t_"

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    partition TEXT NOT NULL,
    row TEXT NOT NULL,
    etag INTEGER NOT NULL,
    properties TEXT NOT NULL,
    packed BLOB,
    PRIMARY KEY (partition, row)
) STRICT, WITHOUT ROWID
"""
_GET = "SELECT etag, properties, packed FROM {table} WHERE partition = ? AND row = ?"
# The whole result in one step, as one JSON array (`writer.py` explains why).
_SELECT = """
SELECT json_group_array(
    json_array(partition, row, json(properties), etag, iif(packed IS NULL, NULL, hex(packed)))
) FROM (
    SELECT partition, row, properties, packed, etag FROM {table}
    WHERE {condition} ORDER BY partition, row LIMIT ?
)
"""
# The same without taking the properties apart, for a reader that knows what it wants of them.
_READ = """
SELECT '[' || coalesce(group_concat('[' || json_quote(row) || ',' || properties || ']'), '') || ']'
FROM (SELECT row, properties FROM {table} WHERE {condition} ORDER BY partition, row LIMIT ?)
"""
_read_rows = msgspec.json.Decoder(list[tuple[str, str, dict[str, Any], int, str | None]]).decode

# -- Writing a page in one step: rows are the names of one JSON object (see `writer.py`).
_INSERT_ALL = (
    "INSERT INTO {table} (partition, row, etag, properties)"
    " SELECT ?1, key, ?2, value FROM json_each(?3) WHERE TRUE"
)
_UPSERT_ALL = (
    _INSERT_ALL + " ON CONFLICT DO UPDATE"
    " SET etag = excluded.etag, properties = excluded.properties, packed = excluded.packed"
)
# Rows with packed bytes one by one: each holds as much as a hundred others.
_INSERT_PACKED = (
    "INSERT INTO {table} (partition, row, etag, properties, packed) VALUES (?1, ?2, ?3, ?4, ?5)"
)
_UPSERT_PACKED = (
    _INSERT_PACKED + " ON CONFLICT DO UPDATE"
    " SET etag = excluded.etag, properties = excluded.properties, packed = excluded.packed"
)
# What rows share is appended to their own: as text, for half the time of `json_patch`.
_INSERT_BULK = (
    "INSERT INTO {table} (partition, row, etag, properties)"
    " SELECT ?1, key, ?2, iif(value = '{{}}', ?4, substr(value, 1, length(value) - 1) || ?5)"
    " FROM json_each(?3)"
)
_DELETE_ALL = (
    "DELETE FROM {table} WHERE partition = ?1 AND row IN (SELECT value FROM json_each(?2))"
)

# -- Writing one row under a condition. Without an ETag its own is compared with itself.
_REPLACE = (
    "UPDATE {table} SET etag = ?4, properties = ?5, packed = ?6"
    " WHERE partition = ?1 AND row = ?2 AND etag = coalesce(?3, etag)"
)
_DELETE = "DELETE FROM {table} WHERE partition = ?1 AND row = ?2 AND etag = coalesce(?3, etag)"

# No row has this ETag: what a caller gives that was never one of ours is stale.
_NO_ETAG = -1


class SqliteTable(CheckedTable):
    def __init__(self, name: str, writer: Writer, readers: Readers, known: set[str]) -> None:
        super().__init__(name)
        self._writer = writer
        self._readers = readers
        self._known = known  # tables that this process has seen: shared by the whole store
        self._table = f'"{PREFIX}{name}"'

    async def _get(self, partition: str, row: str) -> Entity | None:
        def read(connection: apsw.Connection) -> Entity | None:
            return self._entity(connection, partition, row)

        return await self._readers.run(read)

    def _entity(self, connection: apsw.Connection, partition: str, row: str) -> Entity | None:
        for etag, properties, packed in self._rows(connection, _GET, (partition, row)):
            return Entity(partition, row, codec.decode(properties, packed), str(etag))
        return None

    async def _merge_where(
        self, partition: str, rows: Sequence[str], changes: Properties, where: Filter
    ) -> dict[str, Entity]:
        etag = _new_etag()

        def merge(connection: apsw.Connection) -> dict[str, Entity]:
            merged: dict[str, Entity] = {}
            for row in rows:
                found = self._entity(connection, partition, row)
                if found is not None and matches(where, found.properties):
                    properties = {**found.properties, **changes}
                    check_properties(properties)
                    new = (partition, row, None, etag, *codec.encode(properties))
                    self._execute(connection, _REPLACE, new)
                    merged[row] = Entity(partition, row, properties, str(etag))
            return merged

        return await self._writer.run(merge)

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
        sql = _SELECT.format(table=self._table, condition=condition)

        def read(connection: apsw.Connection) -> list[Entity]:
            for (answer,) in self._rows(connection, sql, (*values, limit + 1)):
                return [
                    Entity(partition, row, codec.restored(properties, _bytes(packed)), str(etag))
                    for partition, row, properties, etag, packed in _read_rows(answer)
                ]
            return []

        found = await self._readers.run(read)
        if len(found) <= limit:
            return QueryResult(found, None)
        found.pop()
        return QueryResult(found, encode_token(found[-1].partition, found[-1].row))

    async def _read(
        self, kind: type[S], partition: str, rows: KeyRange, where: Filter | None, limit: int
    ) -> dict[str, S]:
        condition, values = conditions.of_query(KeyRange.only(partition), rows, where, None)
        sql = _READ.format(table=self._table, condition=condition)
        decode = codec.rows_decoder(kind).decode

        def read(connection: apsw.Connection) -> dict[str, S]:
            for (answer,) in self._rows(connection, sql, (*values, limit)):
                return dict(decode(answer))
            return {}

        return await self._readers.run(read)

    async def _apply(self, partition: str, operations: Sequence[Operation]) -> list[str]:
        etag = _new_etag()
        await self._writer.run(self._work(partition, operations, etag))
        self._known.add(self.name)
        written = str(etag)
        return ["" if isinstance(operation, WITHOUT_ETAG) else written for operation in operations]

    def work(self, operations: Sequence[Operation]) -> Callable[[apsw.Connection], None]:
        """Return the work of `apply` in the writing thread, as a part of a larger job."""
        return self._work(check_batch(operations), operations, _new_etag())

    def _work(
        self, partition: str, operations: Sequence[Operation], etag: int
    ) -> Callable[[apsw.Connection], None]:
        batch = _Batch(partition, etag, operations)
        count = row_count(operations)

        def write(connection: apsw.Connection) -> None:
            if self.name not in self._known:
                connection.execute(_CREATE.format(table=self._table))
            before = connection.total_changes()
            try:
                self._write(connection, batch)
            except apsw.ConstraintError as exc:
                raise UnexpectedData(lambda c: self._explain(c, operations)) from exc
            if connection.total_changes() - before != count:
                raise UnexpectedData(lambda c: self._explain(c, operations))

        return write

    def _write(self, connection: apsw.Connection, batch: _Batch) -> None:
        """Do all operations, kind by kind: no row occurs twice, so the order does not matter."""
        partition, etag = batch.partition, batch.etag
        if batch.inserts:
            self._execute(connection, _INSERT_ALL, (partition, etag, batch.inserts))
        if batch.upserts:
            self._execute(connection, _UPSERT_ALL, (partition, etag, batch.upserts))
        for sql, row, (text, packed) in batch.packed:
            self._execute(connection, sql, (partition, row, etag, text, packed))
        for rows, shared in batch.bulk:
            rest = "}" if shared == "{}" else "," + shared[1:]
            self._execute(connection, _INSERT_BULK, (partition, etag, rows, shared, rest))
        if batch.deletes:
            self._execute(connection, _DELETE_ALL, (partition, batch.deletes))
        for operation in batch.others:
            expected = _expected(operation.etag)
            if isinstance(operation, Delete):
                self._execute(connection, _DELETE, (partition, operation.row, expected))
            else:
                row = operation.entity.row
                encoded = self._encoded(connection, operation)
                self._execute(connection, _REPLACE, (partition, row, expected, etag, *encoded))

    def _encoded(self, connection: apsw.Connection, operation: Replace | Merge) -> codec.Encoded:
        """Return the new content of the row. For a merge, only the writing thread can know it."""
        entity = operation.entity
        if isinstance(operation, Replace):
            return codec.encode(entity.properties)
        found = self._entity(connection, entity.partition, entity.row)
        if found is None:
            return codec.Encoded("")
        merged = {**found.properties, **entity.properties}
        check_properties(merged)
        return codec.encode(merged)

    def _execute(self, connection: apsw.Connection, sql: str, values: Sequence[object]) -> None:
        connection.execute(sql.format(table=self._table), values)

    def _explain(self, connection: apsw.Connection, operations: Sequence[Operation]) -> Exception:
        """Return why a batch could not be written; called once its writes are undone."""
        etags = {
            row: str(etag)
            for partition, row in map(key_of, singly(operations))
            for etag, _, _ in self._rows(connection, _GET, (partition, row))
        }
        return misfit(self.name, operations, etags) or StoreDamaged(
            f"{self.name}: a batch was refused although its rows fit"
        )

    def _rows(
        self, connection: apsw.Connection, sql: str, values: Sequence[object]
    ) -> Iterator[tuple[Any, ...]]:
        try:
            yield from connection.execute(sql.format(table=self._table), values)
        except apsw.Error as exc:
            if not is_missing_table(exc):
                raise


def _new_etag() -> int:
    """Return one ETag for a whole batch: each row occurs in it once, so it is new for every row.

    It is not a secret; `secrets` would call the system and release the GIL.
    """
    return random.getrandbits(62)


class _Batch:
    """A batch in the form of the statements, prepared outside the writing thread."""

    __slots__ = ("bulk", "deletes", "etag", "inserts", "others", "packed", "partition", "upserts")

    def __init__(self, partition: str, etag: int, operations: Sequence[Operation]) -> None:
        inserts: dict[str, str] = {}
        upserts: dict[str, str] = {}
        deletes: list[str] = []
        self.bulk: list[tuple[str, str]] = []  # rows with their own properties; shared properties
        self.packed: list[tuple[str, str, codec.Encoded]] = []
        self.others: list[Replace | Merge | Delete] = []
        for operation in operations:
            if isinstance(operation, Insert | Upsert):
                row, encoded = operation.entity.row, codec.encode(operation.entity.properties)
                is_new = isinstance(operation, Insert)
                if encoded.packed is not None:
                    sql = _INSERT_PACKED if is_new else _UPSERT_PACKED
                    self.packed.append((sql, row, encoded))
                else:
                    (inserts if is_new else upserts)[row] = encoded.text
            elif isinstance(operation, BulkInsert):
                self.bulk.append((_json(operation.rows), codec.encode(operation.shared).text))
            elif isinstance(operation, Delete) and operation.etag is None:
                deletes.append(operation.row)
            else:
                self.others.append(operation)
        self.partition = partition
        self.etag = etag
        self.inserts = _json(inserts) if inserts else ""
        self.upserts = _json(upserts) if upserts else ""
        self.deletes = _json(deletes) if deletes else ""


def _bytes(written: str | None) -> bytes | None:
    return None if written is None else bytes.fromhex(written)


def _json(rows: Mapping[str, object] | Sequence[str]) -> str:
    return msgspec.json.encode(rows).decode()


def _expected(etag: str | None) -> int | None:
    if etag is None:
        return None
    return int(etag) if etag.isdecimal() and len(etag) < 20 else _NO_ETAG
