"""Suppressions in the store.

| table              | partition            | row                       | holds                   |
|--------------------|----------------------|---------------------------|-------------------------|
| `suppression`      | two digits of DIGEST | `DIGEST` or `DIGEST,LIST` | a suppression           |
| `suppressionindex` | `all`                | time, the row above       | the same, newest first  |
| `bouncehistory`    | two digits of DIGEST | `DIGEST`                  | see `bounce_history.py` |

DIGEST identifies the address (`address_digest`). An index row is written before its suppression and
removed after it: no suppression is missing in the index, and an index row without one is ignored.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, folded
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.audience.suppressions import AddressDigest, Suppression, address_digest
from postroom.domain.messages.refs import MessageRef
from postroom.services.entities import key_after, read, read_optional
from postroom.services.row_ranges import named_row
from postroom.storage import (
    Conflict,
    Entity,
    Insert,
    InvalidValue,
    KeyRange,
    NotFound,
    Store,
    Upsert,
    Value,
    le,
)

TABLE: Final = "suppression"
INDEX: Final = "suppressionindex"
_ALL: Final = "all"
_KEY_DIGITS: Final = 16  # of a digest, as many as fit into 64 bits
_LONGEST_TEXT: Final = 500
_STEP: Final = 500
_SEARCHED: Final = 20_000  # suppressions that one step of a search looks at
_INDEX_ROW: Final = re.compile(r"\d{18},[0-9a-f]{32}(,[\w.-]{1,100})?", re.ASCII)


class SuppressionSlice(msgspec.Struct, frozen=True):
    """Some suppressions, newest first; `next` continues."""

    suppressions: list[Suppression]
    next: str | None


class SuppressionRows:
    """Reads and writes suppressions; does not touch the rows of subscribers."""

    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)
        self._index = store.table(INDEX)

    async def of_address(self, address: Address) -> list[Suppression]:
        """Return all suppressions of an address, including expired ones: that of every list
        first."""
        return await self.of_digest(address_digest(address))

    async def of_digest(self, digest: AddressDigest) -> list[Suppression]:
        found = await self._table.query(KeyRange.only(digest[:2]), KeyRange.prefix(digest))
        return [_suppression(each) for each in found.entities]

    async def find(self, address: Address, list_name: ListName | None = None) -> Suppression | None:
        digest = address_digest(address)
        found = await self._table.get(digest[:2], _row(digest, list_name))
        return None if found is None else _suppression(found)

    async def write(self, new: Suppression, old: Suppression | None = None) -> None:
        """Write a suppression in place of the old one of the same address and list. `Conflict` if
        another process was faster."""
        entity = _entity(new)
        await self._index.upsert(Entity(_ALL, _index_row(new), entity.properties))
        try:
            if old is None:
                await self._table.insert(entity)
            else:
                await self._table.replace(entity, old.etag)
        except Conflict:
            stored = await self._table.get(entity.partition, entity.row)
            # The same bounce, recorded by two processes: then the index row is the other's.
            if stored is None or _index_row(_suppression(stored)) != _index_row(new):
                await self.remove_from_index(new)
            raise
        if old is not None and _index_row(old) != _index_row(new):
            await self.remove_from_index(old)

    async def index_many(self, new: Sequence[Suppression]) -> None:
        """Write the index rows of at most 100 suppressions, before `insert_many`."""
        rows = {_index_row(each): _entity(each).properties for each in new}
        await self._index.apply([Upsert(Entity(_ALL, row, of)) for row, of in rows.items()])

    async def insert_many(self, new: Sequence[Suppression]) -> None:
        """Insert at most 100 suppressions whose digests begin alike. `Conflict`: then none is."""
        await self._table.apply([Insert(_entity(each)) for each in new])

    async def remove(self, old: Suppression) -> bool:
        """Remove a suppression; return whether it was there. Can be repeated. `Conflict` if another
        one has taken its place."""
        try:
            await self._table.delete(old.digest[:2], _row(old.digest, old.list_name), old.etag)
            was_there = True
        except NotFound:
            was_there = False
        await self.remove_from_index(old)
        return was_there

    async def remove_from_index(self, old: Suppression) -> None:
        """Remove the index row of a suppression that is not stored, or no longer."""
        with suppress(NotFound):
            await self._index.delete(_ALL, _index_row(old))

    async def slice(
        self, *, contains: str = "", limit: int, after: str | None = None
    ) -> SuppressionSlice:
        """Return suppressions, newest first, whose address contains `contains`. `InvalidValue` for
        a bad `after`. One step of a search looks at a limited number, and may find fewer."""
        if after is not None and not _INDEX_ROW.fullmatch(after):
            raise InvalidValue("the continuation token does not belong to suppressions")
        part, found, looked = folded(contains), list[Suppression](), 0
        step = min(1000, max(limit + 1, _STEP)) if part else limit + 1
        while True:
            rows = KeyRange() if after is None else KeyRange(start=key_after(after))
            result = await self._index.query(KeyRange.only(_ALL), rows, limit=step)
            for entity in result.entities:
                each = _suppression(entity)
                if part and part not in folded(each.address):
                    continue
                if len(found) == limit:
                    return SuppressionSlice(found, _index_row(found[-1]))
                found.append(each)
            looked += len(result.entities)
            if len(result.entities) < step:
                return SuppressionSlice(found, None)
            after = result.entities[-1].row
            if looked >= _SEARCHED:
                return SuppressionSlice(found, after)

    async def all(self) -> AsyncIterator[Suppression]:
        """Yield every suppression, newest first."""
        async for entity in self._index.scan(KeyRange.only(_ALL)):
            yield _suppression(entity)

    async def expired(self, now: datetime) -> AsyncIterator[Suppression]:
        """Yield every suppression that has expired."""
        async for entity in self._table.scan(where=le("ExpiresAt", now)):
            yield _suppression(entity)

    async def snapshot(self) -> SuppressedDigests:
        """Return which addresses may be suppressed: 8 MB for a million."""
        keys = array("Q")
        after: str | None = None
        while True:
            found = await self._table.query(after=after)
            keys.extend(_key(each.row) for each in found.entities)
            if (after := found.next) is None:
                return SuppressedDigests(keys)


class SuppressedDigests:
    """The digests of all suppressed addresses at one moment, at eight bytes each."""

    def __init__(self, keys: array[int]) -> None:
        self._keys = keys  # in order, as the store returns digests

    def __len__(self) -> int:
        return len(self._keys)

    def may_hold(self, address: Address) -> bool:
        """Return whether an address may be suppressed; `of_address` is exact."""
        key = _key(address_digest(address))
        place = bisect_left(self._keys, key)
        return place < len(self._keys) and self._keys[place] == key


def blocked_by(
    subscriber: Subscriber, suppressions: Iterable[Suppression], now: datetime
) -> Subscriber:
    """Return the subscriber as suppressions of their address leave them: blocked by the widest one,
    or no longer blocked by one. Someone who was blocked by hand stays blocked."""
    counting = [each for each in suppressions if each.counts_for(subscriber.list_name, now)]
    counting.sort(key=lambda each: each.list_name or "")
    if subscriber.blocked and not subscriber.is_suppressed:
        return subscriber
    reason = f"suppressed: {counting[0].reason}" if counting else ""
    return msgspec.structs.replace(subscriber, blocked=reason, is_suppressed=bool(counting))


def _row(digest: AddressDigest, list_name: ListName | None) -> str:
    return digest if list_name is None else f"{digest},{list_name}"


def _index_row(suppression: Suppression) -> str:
    return named_row(suppression.created_at, _row(suppression.digest, suppression.list_name))


def _key(digest: str) -> int:
    return int(digest[:_KEY_DIGITS], 16)


def _entity(suppression: Suppression) -> Entity:
    digest, list_name = suppression.digest, suppression.list_name
    properties: dict[str, Value] = {
        "Address": suppression.address,
        "Digest": digest,
        "Scope": list_name or "",
        "Reason": suppression.reason,
        "Source": suppression.source,
        "CreatedAt": suppression.created_at,
        "Diagnostic": suppression.diagnostic[:_LONGEST_TEXT],
        "REF": suppression.ref or "",
    }
    if suppression.expires_at is not None:
        properties["ExpiresAt"] = suppression.expires_at
    return Entity(digest[:2], _row(digest, list_name), properties)


def _suppression(entity: Entity) -> Suppression:
    scope, ref = read(entity, "Scope", str), read(entity, "REF", str)
    return Suppression(
        digest=AddressDigest(read(entity, "Digest", str)),
        address=Address(read(entity, "Address", str)),
        reason=read(entity, "Reason", str),
        source=read(entity, "Source", str),
        created_at=read(entity, "CreatedAt", datetime),
        list_name=ListName(scope) if scope else None,
        expires_at=read_optional(entity, "ExpiresAt", datetime),
        ref=MessageRef(ref) if ref else None,
        diagnostic=read(entity, "Diagnostic", str),
        etag=entity.etag,
    )
