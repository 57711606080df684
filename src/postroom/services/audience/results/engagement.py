"""Opens and clicks of messages: sums, without anything about individuals.

| table        | partition | row        | holds                                       |
|--------------|-----------|------------|---------------------------------------------|
| `engagement` | REF       | `sum`      | Sums: JSON of `Engagement`                  |
| `engagement` | REF       | `batch,ID` | CountedAt: this batch of hits is in the sum |

A batch and its sums are written in one batch of the store, so hits count once, however often their
queue message arrives. The row of a batch is removed some time later, by any process that counts
hits of the same message.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.messages.refs import MessageRef
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import key_after, read
from postroom.services.row_ranges import remove_rows
from postroom.storage import AlreadyExists, Entity, Insert, KeyRange, Replace, Store

_TABLE: Final = "engagement"
_SUM: Final = "sum"
_MOST_HOURS: Final = 24 * 31
_ROWS: Final = 1000


class HourFigure(msgspec.Struct, frozen=True, array_like=True):
    """People's opens and clicks of one hour."""

    opened: int = 0
    clicked: int = 0


class Engagement(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often a message was opened and its links were clicked.

    `opened` and `clicked` are visits of people: one who opens twice within half an hour counts
    once. `links` are people's clicks by the numbers of links, and `hours` begin at these times in
    UTC, such as `2026-11-16T22`.
    """

    opened: int = 0
    opened_by_proxies: int = 0
    opened_by_programs: int = 0
    clicked: int = 0
    clicked_by_programs: int = 0
    links: Mapping[int, int] = {}
    hours: Mapping[str, HourFigure] = {}

    def __add__(self, other: Engagement) -> Engagement:
        hours = dict(self.hours)
        for hour, each in other.hours.items():
            known = hours.get(hour, HourFigure())
            hours[hour] = HourFigure(known.opened + each.opened, known.clicked + each.clicked)
        return Engagement(
            self.opened + other.opened,
            self.opened_by_proxies + other.opened_by_proxies,
            self.opened_by_programs + other.opened_by_programs,
            self.clicked + other.clicked,
            self.clicked_by_programs + other.clicked_by_programs,
            {
                number: self.links.get(number, 0) + other.links.get(number, 0)
                for number in sorted({*self.links, *other.links})
            },
            dict(sorted(hours.items())[:_MOST_HOURS]),
        )


class EngagementRows:
    def __init__(self, store: Store) -> None:
        self._table = store.table(_TABLE)

    async def of_message(self, ref: MessageRef) -> Engagement:
        found = await self._table.get(ref, _SUM)
        return Engagement() if found is None else _sums(found)

    async def add(self, ref: MessageRef, batch: str, more: Engagement) -> bool:
        """Add what a batch of hits says about a message; return False if it was added before."""

        async def attempt() -> bool:
            counted = Insert(Entity(ref, _batch(batch), {"CountedAt": clock.now()}))
            found = await self._table.get(ref, _SUM)
            try:
                if found is None:
                    await self._table.apply([counted, Insert(_entity(ref, more))])
                else:
                    after = _entity(ref, _sums(found) + more)
                    await self._table.apply([counted, Replace(after, found.etag)])
            except AlreadyExists as exc:
                if exc.operation == 0:
                    return False
                raise
            return True

        return await retry_on_conflict(attempt, "engagement of", ref)

    async def forget_batches(self, ref: MessageRef, before: datetime) -> None:
        """Forget the batches that were counted before a time: their queue messages have gone. Can
        be repeated."""
        rows = KeyRange.prefix(_batch(""))
        while True:
            found = await self._table.read(_BatchRow, ref, rows, limit=_ROWS)
            old = [row for row, each in found.items() if each.CountedAt < before]
            await remove_rows(self._table, ref, old)
            if len(found) < _ROWS:
                return
            rows = KeyRange(key_after(next(reversed(found))), rows.stop)

    async def forget(self, ref: MessageRef) -> None:
        """Remove the rows of a message that is being removed. Can be repeated."""
        while rows := await self._table.read(_Nothing, ref, limit=_ROWS):
            await remove_rows(self._table, ref, list(rows))


class _BatchRow(msgspec.Struct, frozen=True, gc=False):
    """When a batch was counted."""

    CountedAt: datetime


class _Nothing(msgspec.Struct, frozen=True, gc=False):
    """Only the key of a row is read."""


def _batch(identity: str) -> str:
    return f"batch,{identity}"


def _entity(ref: MessageRef, sums: Engagement) -> Entity:
    return Entity(ref, _SUM, {"Sums": msgspec.json.encode(sums).decode()})


def _sums(entity: Entity) -> Engagement:
    return msgspec.json.decode(read(entity, "Sums", str), type=Engagement)
