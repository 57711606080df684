"""The contract of tables: entities by partition key and row key, and batches of operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from postroom.storage.filters import Filter
from postroom.storage.values import Value

S = TypeVar("S", bound=msgspec.Struct)


class Entity(msgspec.Struct, frozen=True):
    """A row of a table. The store sets the ETag; an entity that is to be written has none."""

    partition: str
    row: str
    properties: Mapping[str, Value]
    etag: str = ""


class KeyRange(msgspec.Struct, frozen=True):
    """Keys from `start` up to `stop` (excluded, unless `including_stop`). None means no bound."""

    start: str | None = None
    stop: str | None = None
    including_stop: bool = False

    @classmethod
    def only(cls, key: str) -> KeyRange:
        """Return the range of a single key."""
        return cls(key, key, including_stop=True)

    @classmethod
    def prefix(cls, prefix: str) -> KeyRange:
        """Return the range of all keys that begin with `prefix`."""
        return cls(prefix or None, _after_all_with(prefix))

    @classmethod
    def between(cls, first: str, last: str) -> KeyRange:
        """Return the range from `first` to `last`, both included."""
        return cls(first, last, including_stop=True)

    @property
    def single(self) -> str | None:
        """The key, if the range contains only one."""
        return self.start if self.including_stop and self.start == self.stop else None


EVERY_KEY = KeyRange()


class Insert(msgspec.Struct, frozen=True):
    """Insert a row. `AlreadyExists`."""

    entity: Entity


class Upsert(msgspec.Struct, frozen=True):
    """Insert a row, or replace the existing one."""

    entity: Entity


class Replace(msgspec.Struct, frozen=True):
    """Replace all properties. `NotFound`; `StaleETag` if `etag` is given and is not the row's."""

    entity: Entity
    etag: str | None = None


class Merge(msgspec.Struct, frozen=True):
    """Replace the given properties and keep the others. Same errors as `Replace`."""

    entity: Entity
    etag: str | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete a row. Same errors as `Replace`."""

    partition: str
    row: str
    etag: str | None = None


class BulkInsert(msgspec.Struct, frozen=True):
    """Insert rows that have most of their properties in common: each has its own, which are text,
    and those that are `shared`. Same errors as `Insert`, for a quarter of the CPU time: imports
    write millions of rows."""

    partition: str
    rows: Mapping[str, Mapping[str, str]]
    shared: Mapping[str, Value] = {}


SingleOperation: TypeAlias = Insert | Upsert | Replace | Merge | Delete
Operation: TypeAlias = SingleOperation | BulkInsert


class QueryResult(msgspec.Struct, frozen=True):
    """Entities in key order. `next` is the token to continue with; None at the end."""

    entities: list[Entity]
    next: str | None


class Table(ABC):
    """Entities by partition key and row key, which are ordered by code point."""

    name: str

    @abstractmethod
    async def get(self, partition: str, row: str) -> Entity | None:
        """Return the entity, or None. Sees every write that returned before the call."""

    @abstractmethod
    async def insert(self, entity: Entity) -> str:
        """Write a new row; return its ETag. `AlreadyExists`."""

    @abstractmethod
    async def upsert(self, entity: Entity) -> str:
        """Write the row, whether it exists or not; return its ETag."""

    @abstractmethod
    async def replace(self, entity: Entity, etag: str | None = None) -> str:
        """Replace all properties of an existing row; return its new ETag.

        `NotFound`; `StaleETag` if `etag` is given and the row has another one now. Of two callers
        with the same ETag, exactly one succeeds. `entity.etag` is ignored.
        """

    @abstractmethod
    async def merge(self, entity: Entity, etag: str | None = None) -> str:
        """Replace the given properties of an existing row and keep the others. As `replace`."""

    @abstractmethod
    async def delete(self, partition: str, row: str, etag: str | None = None) -> None:
        """Delete an existing row. As `replace`."""

    @abstractmethod
    async def apply(self, operations: Sequence[Operation]) -> list[str]:
        """Do 1 to 100 operations in one partition, all or none; return the new ETags in order
        (empty for deletions and for `BulkInsert`).

        Each row of a `BulkInsert` counts as an operation. Each row may occur once. If an operation
        fails, its error is raised, with its position in `.operation`, and
        nothing is written. No reader ever sees a part of a batch.
        """

    @abstractmethod
    async def merge_where(
        self,
        partition: str,
        rows: Collection[str],
        changes: Mapping[str, Value],
        where: Filter,
    ) -> dict[str, Entity]:
        """Merge `changes`, which contain no bytes, into those of these 1 to 100 rows that match
        `where`; return the changed rows.

        Each row is changed independently. If a changed row no longer matches, exactly one of
        several callers gets it.
        """

    @abstractmethod
    async def query(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = 1000,
        after: str | None = None,
    ) -> QueryResult:
        """Return up to `limit` (1 to 1,000) entities with keys in both ranges that match `where`.

        Fewer than `limit` means that there are no more. To continue, pass `next` as `after` with
        the same ranges and filter: rows after that point that have been written since are found,
        deleted ones are not, and none is returned twice. If `partitions` is a single key, the cost
        grows with the rows in the key range, not with the table.
        """

    @abstractmethod
    async def read(
        self,
        kind: type[S],
        partition: str,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
        limit: int = 1000,
    ) -> dict[str, S]:
        """Return up to `limit` rows of one partition by key, in key order, each as a `kind`: a
        struct with the wanted properties, none of which are bytes. Other properties are ignored;
        missing ones get the struct's defaults. Much cheaper than `query`.

        If there are as many as `limit`, more may follow. `StoreDamaged` if a property has another
        type than in the struct.
        """

    @abstractmethod
    def scan(
        self,
        partitions: KeyRange = EVERY_KEY,
        rows: KeyRange = EVERY_KEY,
        *,
        where: Filter | None = None,
    ) -> AsyncIterator[Entity]:
        """Yield everything that `query` finds, with constant memory."""


def _after_all_with(prefix: str) -> str | None:
    """Return the smallest text that is larger than every text with this prefix, if there is one."""
    for end in range(len(prefix), 0, -1):
        successor = ord(prefix[end - 1]) + 1
        if successor == 0xD800:  # surrogates are not characters
            successor = 0xE000
        if successor <= 0x10FFFF:
            return prefix[: end - 1] + chr(successor)
    return None
