"""Reads the subscribers of a list as rules need them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.services import entities
from postroom.services.audience.targeting.key_ranges import EVERY_ROW, KeyRanges, within
from postroom.services.audience.targeting.received_messages import MovedSubscriber, moved_among
from postroom.services.partial_rows import AttributeRow
from postroom.storage import Table

AT_ONCE: Final = 1000  # the most that one query returns
_BEGIN: Final = len(entities.EMAIL_PREFIX)

RuleRow: TypeAlias = tuple[Address, tuple[datetime, Mapping[str, Any]]]
"""An address, when it was added, and the values of its fields."""


class RuleRows(msgspec.Struct, frozen=True):
    """Some subscribers in order, and those among them who have changed their address."""

    rows: Sequence[RuleRow]
    moved: Sequence[MovedSubscriber]

    @property
    def addresses(self) -> list[Address]:
        return [address for address, _ in self.rows]

    @property
    def may_follow(self) -> bool:
        """Whether there may be more in the same range."""
        return len(self.rows) == AT_ONCE


async def rule_rows(
    table: Table, name: ListName, ranges: KeyRanges = (EVERY_ROW,), after: str = ""
) -> AsyncIterator[RuleRows]:
    """Yield the subscribers in ranges of a list, `AT_ONCE` at a time; the last may be none."""
    left = within(ranges, entities.key_after(entities.EMAIL_PREFIX + after) if after else None)
    while left:
        rows = await table.read(AttributeRow, name, left[0], limit=AT_ONCE)
        yield RuleRows(
            [
                (Address(row.EmailAddress or key[_BEGIN:]), (row.CreatedAt, row.known))
                for key, row in rows.items()
            ],
            moved_among(name, rows.items()),
        )
        if len(rows) < AT_ONCE:
            left = left[1:]
        else:
            left = within(left, entities.key_after(next(reversed(rows))))
