"""Reads the subscribers of one or several lists in the order of their addresses, each person once.

Someone who is on several lists counts on the first one from which they may receive messages.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final, Generic, TypeVar

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.services import entities
from postroom.services.audience.targeting.key_ranges import EVERY_ROW, KeyRanges, within
from postroom.services.partial_rows import SubscriberRow
from postroom.storage import Table

AT_ONCE: Final = 1000
"""The most rows of a list that are read, and kept, at a time."""

_key = itemgetter(0)

Row = TypeVar("Row", bound=SubscriberRow)


class People(msgspec.Struct, Generic[Row], frozen=True):
    """Some people in order, by their rows. `numbers` says on which of the lists each of them
    counts, unless all of them count on the first; `duplicates` are their further rows.
    """

    rows: dict[str, Row]
    numbers: dict[str, int]
    duplicates: Sequence[str] = ()


class _Unread(msgspec.Struct, Generic[Row]):
    """Where the reading of a list has come to, and rows of it that were read ahead."""

    start: str | None
    """None at the end of the list."""
    ahead: list[tuple[str, Row]] = []


class PeopleReader(Generic[Row]):
    """Reads people from a place on. Each row is read once, and few are kept."""

    def __init__(
        self,
        table: Table,
        names: Sequence[ListName],
        kind: type[Row],
        behind: str | None = None,
        ranges: KeyRanges = (EVERY_ROW,),
    ) -> None:
        """`behind` is the row after which it begins; only rows in `ranges` are read."""
        self._table = table
        self._names = names
        self._kind = kind
        self._ranges = ranges
        start = EVERY_ROW.start if behind is None else entities.key_after(behind)
        self._unread: list[_Unread[Row]] = [_Unread(start) for _ in names]

    @property
    def is_at_end(self) -> bool:
        return all(each.start is None and not each.ahead for each in self._unread)

    async def read(self) -> People[Row]:
        """Return the next people. There may be none even before the end."""
        await asyncio.gather(*map(self._read_ahead, self._names, self._unread))
        if len(self._names) == 1:
            [one] = self._unread
            rows, one.ahead = dict(one.ahead), []
            return People(rows, {})
        # All rows up to here have been read, of every list.
        ends = [each.ahead[-1][0] for each in self._unread if each.start is not None]
        until = min(ends) if ends else None
        found: dict[str, Row] = {}
        numbers: dict[str, int] = {}
        duplicates: list[str] = []
        for number, each in enumerate(self._unread):
            for row, subscriber in _taken(each, until):
                known = found.get(row)
                if known is not None:
                    duplicates.append(row)
                    if known.may_receive or not subscriber.may_receive:
                        continue
                found[row], numbers[row] = subscriber, number
        return People({row: found[row] for row in sorted(found)}, numbers, duplicates)

    async def _read_ahead(self, name: ListName, unread: _Unread[Row]) -> None:
        while unread.start is not None and not unread.ahead:
            left = within(self._ranges, unread.start)
            if not left:
                unread.start = None
                return
            rows = await self._table.read(self._kind, name, left[0], limit=AT_ONCE)
            unread.ahead = list(rows.items())
            full = len(rows) == AT_ONCE
            following = left[1].start if len(left) > 1 else None
            unread.start = entities.key_after(unread.ahead[-1][0]) if full else following


def _taken(unread: _Unread[Row], until: str | None) -> list[tuple[str, Row]]:
    """Take the rows that were read ahead, up to this one."""
    rows = unread.ahead
    end = len(rows) if until is None else bisect_right(rows, until, key=_key)
    unread.ahead = rows[end:]
    return rows[:end]
