"""Tables: entities in Azure Tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from azure.core import MatchConditions
from azure.data.tables import EntityProperty, TableEntity, UpdateMode

from postroom.storage import limits
from postroom.storage.azure.conditions import is_within, query_text, range_conditions
from postroom.storage.azure.connection import Connection
from postroom.storage.azure.encoding import encode_key, read_entity, written_entity
from postroom.storage.azure.errors import Refused
from postroom.storage.checked_tables import (
    WITHOUT_ETAG,
    CheckedTable,
    described,
    key_of,
    row_count,
    singly,
)
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.contract.tables import (
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
    Upsert,
)
from postroom.storage.errors import AlreadyExists, NotFound, StaleETag, TooLarge
from postroom.storage.filters import Filter, matches
from postroom.storage.values import Properties, check_properties, entity_size

# A merge this large may make an entity too large. The service checks this in its own way, and
# Azurite does not.
_LARGE_MERGE_BYTES: Final = limits.ENTITY_BYTES // 16
_LARGE_MERGE_PROPERTIES: Final = 50

_ETAG = re.compile(r"W/\"datetime'[0-9A-Za-z%:.+-]+'\"")
# Well-formed, but of no row: an invalid ETag counts as stale, while Azure calls it malformed.
_NO_ETAG: Final = "W/\"datetime'1601-01-01T00%3A00%3A00.0000000Z'\""
_PAYLOAD_BYTES: Final = 4 * 1024 * 1024
# Headers, boundaries and the address of one operation, without its keys.
_OPERATION_BYTES: Final = 1000
# `"NAME@odata.type":"Edm.DateTime",` and the punctuation of the value.
_PROPERTY_BYTES: Final = 48
# A character takes up to 12 bytes in a URL (four of UTF-8, each in percent form) and in JSON (two
# escapes), and a key is in both.
_KEY_FACTOR: Final = 24


class AzureTable(CheckedTable):
    def __init__(self, name: str, connection: Connection) -> None:
        super().__init__(name)
        self._connection = connection
        self._client = connection.tables.get_table_client(name)

    async def _get(self, partition: str, row: str) -> Entity | None:
        try:
            found = await self._connection.run(
                lambda: self._client.get_entity(encode_key(partition), encode_key(row)),
                repeatable=True,
            )
        except Refused as refused:
            if refused.nothing_there:
                return None
            raise
        return _entity(found)

    async def _apply(self, partition: str, operations: Sequence[Operation]) -> list[str]:
        """Send an entity group transaction, even for a single operation: its response distinguishes
        a missing row from a deleted one, while the SDK's own delete does not."""
        single = singly(operations)
        for operation in single:
            if isinstance(operation, Merge):
                await self._check_merge(operation)
        requests: Any = [_request(operation) for operation in single]
        check_payload(requests)
        on_rows = [not isinstance(operation, Insert | Upsert) for operation in single]
        try:
            answers = await self._connection.run(
                lambda: self._client.submit_transaction(requests),
                make=None if any(on_rows) else self._make,
            )
        except Refused as refused:
            if refused.place_missing or refused.place_being_deleted:
                first = on_rows.index(True)
                raise NotFound(self._described(single[first]), first) from refused
            raise self._conflict(refused, single) from refused
        answered = iter(answers)
        etags = []
        for given in operations:
            [first_answer, *_] = [next(answered) for _ in range(row_count([given]))]
            with_etag = not isinstance(given, WITHOUT_ETAG)
            etags.append(str(first_answer["etag"]) if with_etag else "")
        return etags

    async def _merge_where(
        self, partition: str, rows: Sequence[str], changes: Properties, where: Filter
    ) -> dict[str, Entity]:
        """Read the rows and merge under their ETags, until no other caller interferes."""
        wanted, merged = set(rows), dict[str, Entity]()
        while True:
            between = KeyRange.between(rows[0], rows[-1])
            found = await self._query(KeyRange.only(partition), between, where, 1000, None)
            free = [each for each in found.entities if each.row in wanted - merged.keys()]
            if not free:
                return merged
            try:
                etags = await self._apply(
                    partition,
                    [Merge(Entity(partition, each.row, changes), each.etag) for each in free],
                )
            except (StaleETag, NotFound):
                continue
            for each, etag in zip(free, etags, strict=True):
                merged[each.row] = Entity(partition, each.row, {**each.properties, **changes}, etag)
            return merged

    async def _query(
        self,
        partitions: KeyRange,
        rows: KeyRange,
        where: Filter | None,
        limit: int,
        after: str | None,
    ) -> QueryResult:
        found: list[Entity] = []
        for conditions in _ordered_conditions(partitions, rows, after):
            start: Any = None
            while True:
                # One more than requested shows whether there are more.
                wanted = limit + 1 - len(found)
                page, start = await self._read_on(conditions, where, start, wanted)
                found += [
                    entity
                    for entity in page
                    if is_within(entity.partition, partitions)
                    and is_within(entity.row, rows)
                    and (where is None or matches(where, entity.properties))
                ]
                if len(found) > limit:
                    last = found[limit - 1]
                    return QueryResult(found[:limit], encode_token(last.partition, last.row))
                if start is None:
                    break
        return QueryResult(found, None)

    async def _read(
        self, kind: type[S], partition: str, rows: KeyRange, where: Filter | None, limit: int
    ) -> dict[str, S]:
        found = await self._query(KeyRange.only(partition), rows, where, limit, None)
        return {each.row: msgspec.convert(each.properties, kind) for each in found.entities}

    async def _read_on(
        self, conditions: list[str], where: Filter | None, start: Any, wanted: int
    ) -> tuple[list[Entity], Any]:
        """Return one response of the service, of any length, and where to continue."""
        try:
            return await self._connection.run(
                partial(self._page, query_text(conditions, where), start, wanted),
                repeatable=True,
                tolerate_crash=where is not None,
            )
        except Refused as refused:
            if refused.nothing_there:
                return [], None
            if refused.status != 500 or where is None:
                raise
        # Azurite's filter crashes on a property that is a float or a boolean in one row and an
        # integer in another. Then only the keys are filtered there.
        return await self._read_on(conditions, None, start, limits.QUERY_ROWS)

    async def _page(self, text: str, start: Any, wanted: int) -> tuple[list[Entity], Any]:
        size = min(wanted, limits.QUERY_ROWS)
        pages: Any = (
            self._client.query_entities(text, results_per_page=size)
            if text
            else self._client.list_entities(results_per_page=size)
        ).by_page(continuation_token=start)
        async for page in pages:
            return [_entity(found) async for found in page], pages.continuation_token or None
        return [], None

    async def _check_merge(self, operation: Merge) -> None:
        properties = operation.entity.properties
        if (
            len(properties) < _LARGE_MERGE_PROPERTIES
            and entity_size(properties) < _LARGE_MERGE_BYTES
        ):
            return
        there = await self._get(operation.entity.partition, operation.entity.row)
        if there is not None:
            check_properties({**there.properties, **properties})

    def _conflict(self, refused: Refused, operations: Sequence[SingleOperation]) -> Exception:
        position = min(refused.operation, len(operations) - 1)
        what = self._described(operations[position])
        if refused.status == 404:
            return NotFound(what, position)
        if refused.code == "EntityAlreadyExists":
            return AlreadyExists(what, position)
        if refused.status == 412:
            return StaleETag(what, position)
        return refused

    def _described(self, operation: SingleOperation) -> str:
        return described(self.name, *key_of(operation))

    async def _make(self) -> None:
        await self._connection.create(self._client.create_table)


def _ordered_conditions(partitions: KeyRange, rows: KeyRange, after: str | None) -> list[list[str]]:
    """Return the conditions of the queries that together cover the range in key order.

    A continuation token is the last key, not Azure's own token, which names the next row: rows that
    are later written between the two would be missed. So the rest of the last partition comes
    first, then the partitions after it; Azure finds both without a scan.
    """
    if after is None:
        return [[*range_conditions("PartitionKey", partitions), *range_conditions("RowKey", rows)]]
    partition, row = decode_token(after, 2)
    rest = [
        *range_conditions("PartitionKey", KeyRange.only(partition)),
        *range_conditions("RowKey", rows, row),
    ]
    if partitions.single is not None:
        return [rest]
    return [
        rest,
        [
            *range_conditions("PartitionKey", partitions, partition),
            *range_conditions("RowKey", rows),
        ],
    ]


def _request(operation: SingleOperation) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the operation in the form of the SDK."""
    if isinstance(operation, Delete):
        entity = written_entity(operation.partition, operation.row, {})
        return "delete", entity, _condition(operation.etag)
    about = operation.entity
    entity = written_entity(about.partition, about.row, about.properties)
    match operation:
        case Insert():
            return "create", entity, {"response_preference": "return-no-content"}
        case Upsert():
            return "upsert", entity, {"mode": UpdateMode.REPLACE}
        case Replace(_, etag):
            return "update", entity, {"mode": UpdateMode.REPLACE, **_condition(etag)}
        case Merge(_, etag):
            return "update", entity, {"mode": UpdateMode.MERGE, **_condition(etag)}


def _condition(etag: str | None) -> dict[str, Any]:
    if etag is None:
        return {"match_condition": MatchConditions.Unconditionally}
    known = etag if _ETAG.fullmatch(etag) else _NO_ETAG
    return {"etag": known, "match_condition": MatchConditions.IfNotModified}


def _entity(found: TableEntity) -> Entity:
    return read_entity(found, str(found.metadata.get("etag")))


def check_payload(requests: Sequence[tuple[str, Mapping[str, Any], Any]]) -> None:
    """Raise `TooLarge` if Azure would refuse the batch: 4 MiB, which it checks only at the end."""
    entities = [entity for _, entity, _ in requests]
    # Most batches are far from the limit even if every character took the most that it can.
    if sum(_size(entity, exact=False) for entity in entities) <= _PAYLOAD_BYTES:
        return
    size = sum(_size(entity, exact=True) for entity in entities)
    if size > _PAYLOAD_BYTES:
        raise TooLarge(
            f"a batch must be at most {_PAYLOAD_BYTES:,} bytes, not {size:,}: make it smaller"
        )


def _size(entity: Mapping[str, Any], *, exact: bool) -> int:
    size = _OPERATION_BYTES
    for name, value in entity.items():
        size += 2 * len(name) + _PROPERTY_BYTES
        if isinstance(value, bytes):
            size += 4 * (len(value) // 3 + 1)
        elif isinstance(value, str):
            if name in ("PartitionKey", "RowKey"):
                size += _KEY_FACTOR * len(value)
            else:
                size += len(json.dumps(value)) if exact else 12 * len(value)
        elif isinstance(value, EntityProperty):
            size += len(str(value.value))
        else:
            size += 24
    return size
