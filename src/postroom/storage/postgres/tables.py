"""Tables: each is a PostgreSQL table, with properties as `jsonb`."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from typing import Any

from psycopg.errors import UndefinedTable

from postroom.storage import codec
from postroom.storage.checked_tables import (
    WITHOUT_ETAG,
    CheckedTable,
    check_batch,
    described,
    key_of,
    singly,
)
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.contract.tables import (
    Entity,
    Insert,
    KeyRange,
    Merge,
    Operation,
    QueryResult,
    Replace,
    S,
    SingleOperation,
    Upsert,
)
from postroom.storage.errors import NotFound
from postroom.storage.filters import Filter
from postroom.storage.postgres import batches, conditions, schema
from postroom.storage.postgres.batches import Writing
from postroom.storage.postgres.connection import (
    Connection,
    Database,
    Parameters,
    joined,
    rows_of,
)
from postroom.storage.values import Properties, check_properties

_GET = """
SELECT etag, properties, packed FROM postroom.{relation}
WHERE partition = %(partition)s AND row = %(row)s
"""
_QUERY = """
SELECT partition, row, properties, packed, etag FROM postroom.{relation} WHERE {condition}
ORDER BY partition, row LIMIT %(limit)s
"""

# The types of the changed properties (`codec`) take the place of those that they had.
_MERGE_WHERE = """
UPDATE postroom.{relation} AS entity
SET etag = %(etag)s::bigint,
    properties = entity.properties || %(changes)s::jsonb || jsonb_build_object('@',
        coalesce(entity.properties -> '@', '{{}}') - string_to_array(%(names)s, chr(31))
        || coalesce(%(changes)s::jsonb -> '@', '{{}}'))
FROM unnest(string_to_array(%(rows)s, chr(31))) AS wanted (row)
CROSS JOIN LATERAL (
    SELECT ctid FROM postroom.{relation} AS entity
    WHERE entity.partition = %(partition)s AND entity.row = wanted.row OFFSET 0
) AS found
WHERE entity.ctid = found.ctid AND {condition}
RETURNING entity.row, entity.properties, entity.packed
"""
_MERGED_BEFORE = """
SELECT entity.row, entity.properties, entity.packed
FROM unnest(string_to_array(%(rows)s, chr(31))) AS wanted (row)
JOIN postroom.{relation} AS entity
ON entity.partition = %(partition)s AND entity.row = wanted.row AND entity.etag = %(etag)s::bigint
"""

_READ = """
SELECT row, properties FROM postroom.{relation} WHERE {condition}
ORDER BY partition, row LIMIT %(limit)s
"""


class PostgresTable(CheckedTable):
    def __init__(self, name: str, database: Database) -> None:
        super().__init__(name)
        self._database = database
        self._relation = schema.relation_of(name)
        self._get_sql = _GET.format(relation=self._relation).encode()

    async def _get(self, partition: str, row: str) -> Entity | None:
        rows = await self._fetch(self._get_sql, {"partition": partition, "row": row})
        if not rows:
            return None
        etag, properties, packed = rows[0]
        return Entity(partition, row, codec.decode(properties, packed), str(etag))

    async def _merge_where(
        self, partition: str, rows: Sequence[str], changes: Properties, where: Filter
    ) -> dict[str, Entity]:
        condition = conditions.Conditions()
        condition.matching(where)
        etag = secrets.randbits(63)
        values = {
            **condition.values,
            "partition": partition,
            "rows": joined(rows),
            "etag": str(etag),
            "changes": codec.encode(changes).text,
            "names": joined(list(changes)),
        }
        names = {"relation": self._relation, "condition": condition.sql}
        sql = _MERGE_WHERE.format(**names).encode()
        merged_before = _MERGED_BEFORE.format(**names).encode()

        async def work(connection: Connection, again: bool) -> list[tuple[Any, ...]]:
            try:
                found = await rows_of(connection, merged_before, values) if again else []
                return [*found, *await rows_of(connection, sql, values)]
            except UndefinedTable:
                return []

        return {
            row: Entity(partition, row, codec.decode(properties, packed), str(etag))
            for row, properties, packed in await self._database.run(work)
        }

    async def _query(
        self,
        partitions: KeyRange,
        rows: KeyRange,
        where: Filter | None,
        limit: int,
        after: str | None,
    ) -> QueryResult:
        last = decode_token(after, 2) if after is not None else None
        wanted = conditions.of_query(partitions, rows, where, last)
        sql = _QUERY.format(relation=self._relation, condition=wanted.sql).encode()
        found = [
            Entity(partition, row, codec.decode(properties, packed), str(etag))
            for partition, row, properties, packed, etag in await self._fetch(
                sql, {**wanted.values, "limit": limit + 1}
            )
        ]
        if len(found) <= limit:
            return QueryResult(found, None)
        found.pop()
        return QueryResult(found, encode_token(found[-1].partition, found[-1].row))

    async def _read(
        self, kind: type[S], partition: str, rows: KeyRange, where: Filter | None, limit: int
    ) -> dict[str, S]:
        wanted = conditions.of_query(KeyRange.only(partition), rows, where, None)
        sql = _READ.format(relation=self._relation, condition=wanted.sql).encode()
        decode = codec.decoder(kind).decode
        found = await self._fetch(sql, {**wanted.values, "limit": limit})
        return {row: decode(properties) for row, properties in found}

    async def _fetch(self, sql: bytes, values: Parameters) -> list[tuple[Any, ...]]:
        async def work(connection: Connection, again: bool) -> list[tuple[Any, ...]]:
            try:
                return await rows_of(connection, sql, values)
            except UndefinedTable:
                return []

        return await self._database.run(work)

    async def _apply(self, partition: str, operations: Sequence[Operation]) -> list[str]:
        # One ETag for the batch: each row occurs in it once, so it is new for every row.
        etag = secrets.randbits(63)

        async def work(connection: Connection, again: bool) -> None:
            await self._write(connection, operations, etag, again)

        await self._database.run(work)
        shown = str(etag)
        return ["" if isinstance(operation, WITHOUT_ETAG) else shown for operation in operations]

    def applying(self, operations: Sequence[Operation]) -> Writing:
        """Return the work of `apply`, as one of several steps."""
        check_batch(operations)
        etag = secrets.randbits(63)

        async def write(connection: Connection, again: bool) -> None:
            await self._write(connection, operations, etag, again)

        async def is_done(connection: Connection) -> bool:
            single = singly(operations)
            try:
                found = await batches.look(connection, self._relation, single)
            except UndefinedTable:
                return False
            return batches.is_done(single, found, etag)

        if any(isinstance(operation, Merge) for operation in operations):
            return Writing(write, is_done, None)  # the rows have to be read first
        return Writing(write, is_done, [batches.demand(self._relation, operations, etag)])

    async def _write(
        self, connection: Connection, operations: Sequence[Operation], etag: int, again: bool
    ) -> None:
        """Write until it succeeds, or until an operation does not fit the rows.

        If a round fails although all operations fit, another caller has just written: the next
        round sees that. `again`: an earlier attempt may have been that caller.
        """
        merges = any(isinstance(operation, Merge) for operation in operations)
        attempt = 0
        while True:
            try:
                plain = operations
                if merges or again or attempt:
                    single = singly(operations)
                    found = await batches.look(connection, self._relation, single)
                    if again and batches.is_done(single, found, etag):
                        return
                    batches.explain(self.name, single, found)
                    plain = [_without_merge(operation, found) for operation in single]
                if await batches.write(connection, self._relation, plain, etag):
                    return
            except UndefinedTable:
                self._demand_no_row(operations)
                await schema.create_table(connection, self.name)
            attempt += 1
            if attempt > 2:
                await asyncio.sleep(random.uniform(0.0, 0.001 * attempt))

    def _demand_no_row(self, operations: Sequence[Operation]) -> None:
        """Raise `NotFound` for an operation that needs a row: the table does not exist."""
        for position, operation in enumerate(singly(operations)):
            if not isinstance(operation, Insert | Upsert):
                raise NotFound(described(self.name, *key_of(operation)), position)


def _without_merge(operation: SingleOperation, found: batches.Found) -> Operation:
    """Return a merge as the replacement of what was found."""
    if not isinstance(operation, Merge):
        return operation
    entity = operation.entity
    etag, properties, packed = found[entity.row]
    merged = {**codec.decode(properties, packed), **entity.properties}
    check_properties(merged)
    return Replace(Entity(entity.partition, entity.row, merged), str(etag))
