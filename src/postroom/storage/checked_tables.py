"""What the tables of all engines share: checks of arguments, metrics, methods that use others (see
`checked.py`), and the reason why a batch of operations does not fit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from functools import lru_cache
from typing import get_args

import msgspec

from postroom.storage import limits
from postroom.storage.checked import measured
from postroom.storage.contract.tables import (
    EVERY_KEY,
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
    SingleOperation,
    Table,
    Upsert,
)
from postroom.storage.errors import (
    AlreadyExists,
    Conflict,
    InvalidBatch,
    InvalidKey,
    InvalidValue,
    NotFound,
    StaleETag,
    StoreDamaged,
    TooLarge,
)
from postroom.storage.filters import Filter, check_filter
from postroom.storage.names import check_key, check_keys, check_table_name
from postroom.storage.values import (
    Properties,
    Value,
    check_alike,
    check_count,
    check_properties,
    check_text,
)

WITHOUT_ETAG = (Delete, BulkInsert)
"""Operations for which `apply` returns no ETag."""


class CheckedTable(Table):
    """A table whose engine implements the methods with an underscore."""

    def __init__(self, name: str) -> None:
        self.name = check_table_name(name)

    @abstractmethod
    async def _get(self, partition: str, row: str) -> Entity | None: ...

    @abstractmethod
    async def _apply(self, partition: str, operations: Sequence[Operation]) -> list[str]: ...

    @abstractmethod
    async def _merge_where(
        self, partition: str, rows: Sequence[str], changes: Properties, where: Filter
    ) -> dict[str, Entity]: ...

    @abstractmethod
    async def _query(
        self,
        partitions: KeyRange,
        rows: KeyRange,
        where: Filter | None,
        limit: int,
        after: str | None,
    ) -> QueryResult: ...

    @abstractmethod
    async def _read(
        self, kind: type[S], partition: str, rows: KeyRange, where: Filter | None, limit: int
    ) -> dict[str, S]: ...

    @measured("table get")
    async def get(self, partition: str, row: str) -> Entity | None:
        return await self._get(check_key(partition), check_key(row))

    async def insert(self, entity: Entity) -> str:
        return (await self.apply([Insert(entity)]))[0]

    async def upsert(self, entity: Entity) -> str:
        return (await self.apply([Upsert(entity)]))[0]

    async def replace(self, entity: Entity, etag: str | None = None) -> str:
        return (await self.apply([Replace(entity, etag)]))[0]

    async def merge(self, entity: Entity, etag: str | None = None) -> str:
        return (await self.apply([Merge(entity, etag)]))[0]

    async def delete(self, partition: str, row: str, etag: str | None = None) -> None:
        await self.apply([Delete(partition, row, etag)])

    @measured("table apply")
    async def apply(self, operations: Sequence[Operation]) -> list[str]:
        return await self._apply(check_batch(operations), operations)

    @measured("table merge_where")
    async def merge_where(
        self,
        partition: str,
        rows: Collection[str],
        changes: Mapping[str, Value],
        where: Filter,
    ) -> dict[str, Entity]:
        wanted = sorted(set(rows))
        if not 1 <= len(wanted) <= limits.BATCH_OPERATIONS:
            raise InvalidBatch(
                f"a batch must have 1 to {limits.BATCH_OPERATIONS} rows, not {len(wanted)}"
            )
        check_keys(wanted)
        check_filter(where)
        check_properties(changes)
        if any(isinstance(value, bytes) for value in changes.values()):
            raise InvalidValue("bytes cannot be merged under a condition")
        return await self._merge_where(check_key(partition), wanted, changes, where)

    @measured("table query")
    async def query(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = limits.QUERY_ROWS,
        after: str | None = None,
    ) -> QueryResult:
        check_range(partitions)
        check_range(rows)
        if where is not None:
            check_filter(where)
        check_count("limit", limit, limits.QUERY_ROWS)
        return await self._query(partitions, rows, where, limit, after)

    @measured("table read")
    async def read(
        self,
        kind: type[S],
        partition: str,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = limits.QUERY_ROWS,
    ) -> dict[str, S]:
        _check_kind(kind)
        check_key(partition)
        check_range(rows)
        if where is not None:
            check_filter(where)
        check_count("limit", limit, limits.QUERY_ROWS)
        try:
            return await self._read(kind, partition, rows, where, limit)
        except msgspec.DecodeError as exc:
            raise StoreDamaged(f"{self.name}({partition!r}): {exc}") from exc

    async def scan(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
    ) -> AsyncIterator[Entity]:
        after: str | None = None
        while True:
            result = await self.query(partitions, rows, where=where, after=after)
            for entity in result.entities:
                yield entity
            after = result.next
            if after is None:
                return


def singly(operations: Sequence[Operation]) -> list[SingleOperation]:
    """Return the same operations, one per row."""
    single: list[SingleOperation] = []
    for operation in operations:
        if isinstance(operation, BulkInsert):
            partition, shared = operation.partition, operation.shared
            single += [
                Insert(Entity(partition, row, {**own, **shared}))
                for row, own in operation.rows.items()
            ]
        else:
            single.append(operation)
    return single


def key_of(operation: SingleOperation) -> tuple[str, str]:
    """Return the partition and row of an operation."""
    about = operation if isinstance(operation, Delete) else operation.entity
    return about.partition, about.row


def row_count(operations: Sequence[Operation]) -> int:
    """Return how many rows the operations concern."""
    return sum(len(each.rows) if isinstance(each, BulkInsert) else 1 for each in operations)


def misfit(
    table: str, operations: Sequence[Operation], etags: Mapping[str, str]
) -> Conflict | None:
    """Return the error of the first operation that does not fit the rows; None if all fit.

    `etags` are those of the existing rows. Each row occurs in a batch once, so operations do not
    affect each other.
    """
    for position, operation in enumerate(singly(operations)):
        partition, row = key_of(operation)
        what = described(table, partition, row)
        if isinstance(operation, Insert):
            if row in etags:
                return AlreadyExists(what, position)
        elif not isinstance(operation, Upsert):
            if row not in etags:
                return NotFound(what, position)
            if operation.etag is not None and operation.etag != etags[row]:
                return StaleETag(what, position)
    return None


def described(table: str, partition: str, row: str) -> str:
    """Return a row as errors name it."""
    return f"{table}({partition!r}, {row!r})"


@lru_cache(maxsize=64)
def _check_kind(kind: type[msgspec.Struct]) -> None:
    """Refuse a struct with a property of bytes: these are stored separately, and are not read."""
    for field in msgspec.structs.fields(kind):
        if field.type is bytes or bytes in get_args(field.type):
            raise InvalidValue(f"{field.name}: bytes cannot be read as part of a struct; use query")


def check_range(keys: KeyRange) -> None:
    """Check the bounds, which may be longer than keys and end in any character."""
    for bound in (keys.start, keys.stop):
        if bound is not None:
            if not isinstance(bound, str):
                raise InvalidKey(f"the bound of a range must be text, not {type(bound).__name__}")
            check_text("the bound of a key range", bound, limits.KEY_BYTES)


def check_batch(operations: Sequence[Operation]) -> str:
    """Check a batch; return its partition."""
    count = row_count(operations)
    if not 1 <= count <= limits.BATCH_OPERATIONS:
        raise InvalidBatch(f"a batch must have 1 to {limits.BATCH_OPERATIONS} rows, not {count}")
    rows: set[str] = set()
    size = 0
    first: str | None = None
    for operation in operations:
        if isinstance(operation, Delete):
            partition = operation.partition
            rows.add(check_key(operation.row))
        elif isinstance(operation, BulkInsert):
            partition = operation.partition
            check_keys(operation.rows)
            rows.update(operation.rows)
            size += check_alike(operation.rows.values(), operation.shared)
        else:
            entity = operation.entity
            partition = entity.partition
            size += check_properties(entity.properties)
            rows.add(check_key(entity.row))
        if first is None:
            first = check_key(partition)
        elif partition != first:
            raise InvalidBatch(f"a batch must be in one partition, not {first!r} and {partition!r}")
    if len(rows) != count:
        raise InvalidBatch("a batch must not contain a row twice")
    if size > limits.BATCH_BYTES:
        raise TooLarge(f"a batch must be at most {limits.BATCH_BYTES:,} bytes, not {size:,}")
    return first or ""
