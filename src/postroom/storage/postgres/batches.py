"""A batch of operations as one statement, which does all of them or none.

Each kind of operation is one part of the statement and takes its rows as arrays. If a row is not
as its operation expects, fewer rows change than wanted, and `postroom.all_or_nothing` fails the
whole statement. That takes one round trip, without an explicit transaction.

Several writes together also take one round trip: statements in a pipeline without an explicit
transaction form one. If one of them fails, none takes effect; then they are done one after the
other, up to the one that fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import msgspec
import psycopg
from psycopg.errors import PipelineAborted, UndefinedTable, UniqueViolation

from postroom.storage import codec
from postroom.storage.checked_tables import key_of, misfit
from postroom.storage.contract.tables import (
    BulkInsert,
    Delete,
    Insert,
    Merge,
    Operation,
    Replace,
    SingleOperation,
    Upsert,
)
from postroom.storage.postgres.connection import Connection, Database, joined, rows_of

Found: TypeAlias = Mapping[str, tuple[int, str, bytes | None]]
"""The existing rows of a batch: ETag, properties as JSON, packed bytes."""
_SUPPORTED = psycopg.Pipeline.is_supported()  # by the system's libpq, where that is the one in use

Statement: TypeAlias = tuple[bytes, dict[str, object]]


class _Row(NamedTuple):
    """A row of a batch; `etag` is the one that it must have, or empty."""

    row: str
    properties: str = ""
    packed: bytes | None = None
    etag: str = ""


_Kind: TypeAlias = tuple[str, bool]  # of operation, and whether rows of it have packed bytes
_key = attrgetter("row")

_DID_NOT_FIT = "PR001"  # raised by postroom.all_or_nothing
_NO_ETAG = "-1"  # no row has it: an invalid ETag counts as stale

# A fenced sub-query finds each row by its whole key, and the row is then changed by its place
# (`ctid`). With a plain join and old statistics of a table that was small a moment ago, PostgreSQL
# might read a whole partition or table. The ETag is compared in the outer condition, which is
# evaluated again if another transaction has just changed the row.
#
# Rows are sorted, so two batches lock the rows they share in the same order. A batch of several
# kinds, whose parts run one after the other, locks all its rows first (`gate`).
#
# `packed` is an array only if a row of the batch has packed bytes (`{packed}`), otherwise NULL.
_INSERT = """
INSERT INTO postroom.{relation} (partition, row, etag, properties, packed)
SELECT %(partition)s, new.row, %(etag)s::bigint, new.properties::jsonb, new.packed
FROM unnest(string_to_array(%(insert_rows)s, chr(31)),
            string_to_array(%(insert_properties)s, chr(31)),
            {packed}) AS new (row, properties, packed)
WHERE {gate}
"""
_UPSERT = """
INSERT INTO postroom.{relation} (partition, row, etag, properties, packed)
SELECT %(partition)s, new.row, %(etag)s::bigint, new.properties::jsonb, new.packed
FROM unnest(string_to_array(%(upsert_rows)s, chr(31)),
            string_to_array(%(upsert_properties)s, chr(31)),
            {packed}) AS new (row, properties, packed)
WHERE {gate}
ON CONFLICT (partition, row)
DO UPDATE SET etag = excluded.etag, properties = excluded.properties, packed = excluded.packed
"""
# An expected ETag that is empty becomes NULL, and the row's own is compared with itself.
_REPLACE = """
UPDATE postroom.{relation} AS old
SET etag = %(etag)s::bigint, properties = new.properties::jsonb, packed = new.packed
FROM unnest(string_to_array(%(replace_rows)s, chr(31)),
            string_to_array(%(replace_properties)s, chr(31)),
            string_to_array(%(replace_etags)s, chr(31), ''),
            {packed}) AS new (row, properties, etag, packed)
CROSS JOIN LATERAL (
    SELECT ctid FROM postroom.{relation} AS entity
    WHERE entity.partition = %(partition)s AND entity.row = new.row OFFSET 0
) AS found
WHERE old.ctid = found.ctid AND old.etag = coalesce(new.etag::bigint, old.etag) AND {gate}
"""
_DELETE = """
DELETE FROM postroom.{relation} AS old
USING unnest(string_to_array(%(delete_rows)s, chr(31)),
             string_to_array(%(delete_etags)s, chr(31), '')) AS gone (row, etag)
CROSS JOIN LATERAL (
    SELECT ctid FROM postroom.{relation} AS entity
    WHERE entity.partition = %(partition)s AND entity.row = gone.row OFFSET 0
) AS found
WHERE old.ctid = found.ctid AND old.etag = coalesce(gone.etag::bigint, old.etag) AND {gate}
"""
_PARTS = {"insert": _INSERT, "upsert": _UPSERT, "replace": _REPLACE, "delete": _DELETE}
_LOCKED = """locked AS MATERIALIZED (
    SELECT count(*) FROM unnest(string_to_array(%(all_rows)s, chr(31))) AS wanted (row)
    CROSS JOIN LATERAL (
        SELECT FROM postroom.{relation} AS entity
        WHERE entity.partition = %(partition)s AND entity.row = wanted.row FOR UPDATE
    ) AS found
)"""
_GATE = "(SELECT count FROM locked) >= 0"
_DEMAND = "WITH {parts} SELECT postroom.all_or_nothing({counts}, %(wanted)s)"

_LOOK = """
SELECT found.row, found.etag, found.properties, found.packed
FROM unnest(string_to_array(%(rows)s, chr(31))) AS wanted (row)
CROSS JOIN LATERAL (
    SELECT * FROM postroom.{relation} AS entity
    WHERE entity.partition = %(partition)s AND entity.row = wanted.row OFFSET 0
) AS found
"""


async def write(
    connection: Connection, relation: str, operations: Sequence[Operation], etag: int
) -> bool:
    """Do the operations; return False, with nothing done, if a row is not as one of them expects.

    The caller has turned merges into replacements.
    """
    kinds, values = _arranged(operations, etag)
    single = values["wanted"] == 1
    try:
        cursor = await connection.execute(_statement(relation, kinds, single), values, prepare=True)
    except psycopg.DatabaseError as exc:
        if not is_misfit(exc):
            raise
        return False
    return cursor.rowcount == 1 or not single


def demand(
    relation: str, operations: Sequence[Operation], etag: int
) -> tuple[bytes, dict[str, object]]:
    """Return the statement, with its values, that does the same as `write`; it fails (`is_misfit`)
    if a row is not as an operation expects."""
    kinds, values = _arranged(operations, etag)
    return _statement(relation, kinds, single=False), values


def is_misfit(exc: psycopg.Error) -> bool:
    """Return whether a statement failed because a row was not as expected."""
    return isinstance(exc, UniqueViolation) or exc.sqlstate == _DID_NOT_FIT


def _arranged(
    operations: Sequence[Operation], etag: int
) -> tuple[tuple[_Kind, ...], dict[str, object]]:
    """Return the kinds of operations, and all their rows as values of the statement."""
    kinds: dict[str, list[_Row]] = {}
    for operation in operations:
        kinds.setdefault(_kind(operation), []).extend(_rows(operation))
    values: dict[str, object] = {"partition": _partition(operations[0]), "etag": str(etag)}
    for kind, rows in kinds.items():
        values.update(_arrays(kind, sorted(rows, key=_key)))
    everything = sorted(each.row for rows in kinds.values() for each in rows)
    values["wanted"] = len(everything)
    if len(kinds) > 1:
        values["all_rows"] = joined(everything)
    return tuple((kind, f"{kind}_packed" in values) for kind in sorted(kinds)), values


async def look(
    connection: Connection, relation: str, operations: Sequence[SingleOperation]
) -> Found:
    """Return the current rows that the operations concern."""
    keys = [key_of(operation) for operation in operations]
    rows = await rows_of(
        connection,
        _LOOK.format(relation=relation).encode(),
        {"partition": keys[0][0], "rows": joined([row for _, row in keys])},
    )
    return {row: (etag, properties, packed) for row, etag, properties, packed in rows}


def explain(table: str, operations: Sequence[SingleOperation], found: Found) -> None:
    """Raise the error of the first operation that does not fit the rows, if there is one."""
    error = misfit(table, operations, {row: str(etag) for row, (etag, _, _) in found.items()})
    if error is not None:
        raise error


def is_done(operations: Sequence[SingleOperation], found: Found, etag: int) -> bool:
    """Return whether an earlier attempt succeeded: one row with the batch's ETag proves it."""
    if all(isinstance(operation, Delete) for operation in operations):
        return not found
    return any(found_etag == etag for found_etag, _, _ in found.values())


@lru_cache(maxsize=1024)
def _statement(relation: str, kinds: tuple[_Kind, ...], single: bool) -> bytes:
    """Return the SQL for these kinds of operations together."""
    gate = _GATE if len(kinds) > 1 else "true"
    parts = {
        kind: _PARTS[kind].format(
            relation=relation,
            gate=gate,
            packed=f"%({kind}_packed)b::bytea[]" if has_packed else "NULL::bytea[]",
        )
        for kind, has_packed in kinds
    }
    [first, *others] = parts
    if single:  # nothing to undo, and no error in the server's log for a duplicate
        suffix = " ON CONFLICT DO NOTHING" if first == "insert" else ""
        return (parts[first] + suffix).encode()
    if not others and first in ("insert", "upsert"):  # these fail as a whole, or never
        return parts[first].encode()
    queries = [f"{kind} AS ({part} RETURNING 1)" for kind, part in parts.items()]
    if others:
        queries.insert(0, _LOCKED.format(relation=relation))
    counts = " + ".join(_count_of(kind) for kind in parts)
    return _DEMAND.format(parts=", ".join(queries), counts=counts).encode()


def _count_of(kind: str) -> str:
    return f'(SELECT count(*) FROM "{kind}")'


def _kind(operation: Operation) -> str:
    if isinstance(operation, Insert | BulkInsert):
        return "insert"
    if isinstance(operation, Upsert):
        return "upsert"
    return "delete" if isinstance(operation, Delete) else "replace"


def _partition(operation: Operation) -> str:
    if isinstance(operation, Delete | BulkInsert):
        return operation.partition
    return operation.entity.partition


def _rows(operation: Operation) -> list[_Row]:
    """Return the rows of an operation."""
    match operation:
        case BulkInsert(_, rows, shared):
            return [_Row(row, text) for row, text in codec.encode_alike(rows, shared).items()]
        case Delete(_, row, etag):
            return [_Row(row, etag=_expected(etag))]
        case Insert(entity) | Upsert(entity):
            return [_Row(entity.row, *codec.encode(entity.properties))]
        case Replace(entity, etag) | Merge(entity, etag):
            return [_Row(entity.row, *codec.encode(entity.properties), _expected(etag))]


def _arrays(kind: str, rows: Sequence[_Row]) -> dict[str, object]:
    """Return the arrays of one part of the statement."""
    arrays: dict[str, object] = {f"{kind}_rows": joined([each.row for each in rows])}
    if kind != "delete":
        arrays[f"{kind}_properties"] = joined([each.properties for each in rows])
        if any(each.packed is not None for each in rows):
            arrays[f"{kind}_packed"] = [each.packed for each in rows]
    if kind in ("replace", "delete"):
        arrays[f"{kind}_etags"] = joined([each.etag for each in rows])
    return arrays


def _expected(etag: str | None) -> str:
    if etag is None:
        return ""
    is_ours = etag.isascii() and etag.isdigit() and str(int(etag)) == etag and int(etag) < 2**63
    return etag if is_ours else _NO_ETAG


class Writing(msgspec.Struct, frozen=True):
    """One of several writes.

    `write(connection, again)` does it alone (see `Database.run`); `is_done(connection)` returns
    whether it has been done. `statements` do the same or fail; None if that is impossible.
    """

    write: Callable[[Connection, bool], Awaitable[None]]
    is_done: Callable[[Connection], Awaitable[bool]]
    statements: Sequence[Statement] | None


async def write_together(database: Database, writings: Sequence[Writing]) -> None:
    """Do all writes, in this order."""
    statements = [each for writing in writings for each in writing.statements or ()]
    possible = _SUPPORTED and all(writing.statements is not None for writing in writings)

    async def work(connection: Connection, again: bool) -> None:
        left = writings
        if again:
            left = await _left(connection, writings)
        elif possible and await _together(connection, statements):
            return
        for writing in left:
            await writing.write(connection, again)

    await database.run(work)


async def _left(connection: Connection, writings: Sequence[Writing]) -> Sequence[Writing]:
    """Return the writes after the last one that an earlier attempt has done. Those before it may
    not be recognised, because it may have changed the same rows."""
    for number in range(len(writings), 0, -1):
        if await writings[number - 1].is_done(connection):
            return writings[number:]
    return writings


async def _together(connection: Connection, statements: Sequence[Statement]) -> bool:
    """Do all statements; return False, with nothing done, if the data does not fit one of them."""
    try:
        async with connection.pipeline():
            for sql, values in statements:
                await connection.execute(sql, values, prepare=True)
    except (UndefinedTable, PipelineAborted):
        return False
    except psycopg.DatabaseError as exc:
        if not is_misfit(exc):
            raise
        return False
    return True
