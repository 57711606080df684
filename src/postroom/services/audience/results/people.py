"""What individuals did with a message, if they agreed to having it recorded.

| table        | partition | row    | holds                                                        |
|--------------|-----------|--------|--------------------------------------------------------------|
| `engagement` | REF,x     | a GUID | OpenedAt and ClickedAt: the first time; Links: their numbers |
| `engagement` | REF,x     | `sum`  | Sums: JSON of `PeopleSums`, of the rows in this partition    |

x is the last digit of the GUID. A row and its part of the sums are written in one batch of the
store, and a row that says something already changes nothing, so everyone counts once, however
often a hit is counted. Erasing a person, or the end of their consent (`withdrawn_consents.py`),
removes the row and keeps the sums.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.hits import PersonHits
from postroom.domain.messages.refs import MessageRef
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read, read_optional
from postroom.services.row_ranges import remove_rows
from postroom.storage import (
    Entity,
    Insert,
    InvalidValue,
    KeyRange,
    NotFound,
    Operation,
    Replace,
    Store,
    Value,
)

TABLE: Final = "engagement"
PARTS: Final = "0123456789abcdef"
_SUM: Final = "sum"
_AT_ONCE: Final = 90  # people in one batch of the store, which holds 100 rows
_ROWS: Final = 1000
_SHOWN: Final = 23  # of a GUID's 36 characters
_PLACE: Final = re.compile(r"[0-9a-f][0-9a-f-]{1,23}")


class Person(msgspec.Struct, frozen=True):
    """When someone first opened a message and clicked a link, and the numbers of the links."""

    guid: SubscriberGuid
    opened_at: datetime | None = None
    clicked_at: datetime | None = None
    links: tuple[int, ...] = ()

    def after(self, hits: PersonHits) -> Person:
        """Return the same with these hits; the same if they say nothing new."""
        return Person(
            self.guid,
            _earlier(self.opened_at, hits.opened_at),
            _earlier(self.clicked_at, hits.clicked_at),
            tuple(sorted({*self.links, *hits.links})),
        )


class PeopleSums(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many people opened a message, clicked any link, and clicked each of its links."""

    opened: int = 0
    clicked: int = 0
    links: Mapping[int, int] = {}

    def __add__(self, other: PeopleSums) -> PeopleSums:
        links = {
            number: self.links.get(number, 0) + other.links.get(number, 0)
            for number in sorted({*self.links, *other.links})
        }
        return PeopleSums(self.opened + other.opened, self.clicked + other.clicked, links)

    def with_change(self, before: Person, after: Person) -> PeopleSums:
        return self + PeopleSums(
            int(after.opened_at is not None and before.opened_at is None),
            int(after.clicked_at is not None and before.clicked_at is None),
            {number: 1 for number in after.links if number not in before.links},
        )


class PeopleRows:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def record(self, ref: MessageRef, hits: Mapping[SubscriberGuid, PersonHits]) -> None:
        """Record what people did. Can be repeated."""
        by_part: dict[str, list[SubscriberGuid]] = {}
        for guid in hits:
            by_part.setdefault(_partition(ref, guid), []).append(guid)
        for partition, guids in by_part.items():
            for start in range(0, len(guids), _AT_ONCE):
                some = guids[start : start + _AT_ONCE]
                await self._record(partition, {each: hits[each] for each in some})

    async def sums(self, ref: MessageRef) -> PeopleSums:
        """Return how many people did something: 16 point reads."""
        found = await asyncio.gather(*(self._table.get(f"{ref},{part}", _SUM) for part in PARTS))
        return sum((_sums(each) for each in found), PeopleSums())

    async def get(self, ref: MessageRef, guid: SubscriberGuid) -> Person | None:
        found = await self._table.get(_partition(ref, guid), guid)
        return None if found is None else _person(found)

    async def some(
        self, ref: MessageRef, after: str | None = None, limit: int = _ROWS
    ) -> Sequence[Person]:
        """Return up to `limit` people in the order of their rows, after a place. Fewer mean that
        there are no more. `InvalidValue` for a bad `after`."""
        found: list[Person] = []
        if after is not None and not _PLACE.fullmatch(after):
            raise InvalidValue(
                f"after must be the 'next' of an earlier response, not {after[:60]!r}"
            )
        first = 0 if after is None else PARTS.index(after[0])
        for part in PARTS[first:]:
            start = f"{after[1:]}~" if after and part == after[0] else ""
            rows = KeyRange(start=start, stop=_SUM)
            result = await self._table.query(
                KeyRange.only(f"{ref},{part}"), rows, limit=limit - len(found)
            )
            found += map(_person, result.entities)
            if len(found) >= limit:
                break
        return found

    async def remove(
        self, ref: MessageRef, guid: SubscriberGuid, before: datetime | None = None
    ) -> None:
        """Remove a person's row, and keep the sums; with `before`, only if it says something about
        the time before that. Can be repeated."""
        if before is not None:
            found = await self.get(ref, guid)
            first = None if found is None else _earlier(found.opened_at, found.clicked_at)
            if first is None or first >= before:
                return
        with suppress(NotFound):
            await self._table.delete(_partition(ref, guid), guid)

    async def forget(self, ref: MessageRef) -> None:
        """Remove the rows of a message that is being removed. Can be repeated."""
        for part in PARTS:
            partition = f"{ref},{part}"
            while rows := await self._table.read(_Nothing, partition, limit=_ROWS):
                await remove_rows(self._table, partition, list(rows))

    async def _record(self, partition: str, hits: Mapping[SubscriberGuid, PersonHits]) -> None:
        async def attempt() -> None:
            total, *found = await asyncio.gather(
                *(self._table.get(partition, row) for row in (_SUM, *hits))
            )
            sums = _sums(total)
            operations: list[Operation] = []
            for (guid, each), entity in zip(hits.items(), found, strict=True):
                before = Person(guid) if entity is None else _person(entity)
                after = before.after(each)
                if after != before:
                    operations.append(_written(_entity(partition, after), entity))
                    sums = sums.with_change(before, after)
            if operations:
                text = msgspec.json.encode(sums).decode()
                operations.append(_written(Entity(partition, _SUM, {"Sums": text}), total))
                await self._table.apply(operations)

        await retry_on_conflict(attempt, "engagement of", partition)


class _Nothing(msgspec.Struct, frozen=True, gc=False):
    """Only the key of a row is read."""


def place_of(guid: SubscriberGuid) -> str:
    """Return where a person is among those of a message. It does not reveal the GUID, which opens
    links: 44 bits are missing."""
    return guid[-1] + guid[:_SHOWN]


def _partition(ref: MessageRef, guid: SubscriberGuid) -> str:
    return f"{ref},{guid[-1]}"


def _written(entity: Entity, before: Entity | None) -> Operation:
    return Insert(entity) if before is None else Replace(entity, before.etag)


def _sums(entity: Entity | None) -> PeopleSums:
    if entity is None:
        return PeopleSums()
    return msgspec.json.decode(read(entity, "Sums", str), type=PeopleSums)


def _entity(partition: str, person: Person) -> Entity:
    properties: dict[str, Value] = {}
    if person.opened_at is not None:
        properties["OpenedAt"] = person.opened_at
    if person.clicked_at is not None:
        properties["ClickedAt"] = person.clicked_at
        properties["Links"] = ",".join(map(str, person.links))
    return Entity(partition, person.guid, properties)


def _person(entity: Entity) -> Person:
    links = read_optional(entity, "Links", str)
    return Person(
        SubscriberGuid(entity.row),
        read_optional(entity, "OpenedAt", datetime),
        read_optional(entity, "ClickedAt", datetime),
        tuple(map(int, links.split(","))) if links else (),
    )


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((each for each in (one, other) if each is not None), default=None)
