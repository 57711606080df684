"""Which subscribers of its lists get a message. Counting and fan-out both use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldValue
from postroom.domain.audience.fields import Field, Fields
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.rules import compile_rule, parse_rule
from postroom.domain.audience.rules.evaluating import Selects
from postroom.domain.messages.audiences import Audience, AudienceRules, Exclusion
from postroom.services import entities
from postroom.services.audience.targeting.key_ranges import ranges_of
from postroom.services.audience.targeting.received_messages import (
    MessageRecipients,
    MovedSubscriber,
    moved_among,
)
from postroom.services.partial_rows import AttributeRow
from postroom.storage import KeyRange, Store

_AT_ONCE: Final = 1000
_PREFIX: Final = len(entities.EMAIL_PREFIX)


class _OtherRow(msgspec.Struct, frozen=True, gc=False):
    """What matters of a subscriber of an excluded list."""

    Verified: bool = False


class Selection:
    """An audience with its rules compiled, for one day."""

    def __init__(
        self,
        store: Store,
        lists: Sequence[ListName],
        audience: Audience,
        rules: AudienceRules,
        today: date,
        recipients: MessageRecipients,
    ) -> None:
        """`lists` are all lists of the message; `recipients` knows the messages that its rules
        name."""
        self._table = store.table(entities.LISTS)
        self._lists = lists
        self._exclude_lists = audience.exclude_lists
        self._fields = [_fields(rules, number, name) for number, name in enumerate(lists)]
        self._recipients = recipients
        compiled = partial(_compiled, today=today, recipients=recipients)
        self._segment = compiled(rules.segment) if rules.segment else None
        self.ranges = ranges_of(parse_rule(rules.segment) if rules.segment else None)
        """The rows among which the segment can select some."""
        self._excluded = [compiled(each) for each in rules.excluded]

    async def exclusions(
        self, rows: dict[str, AttributeRow], numbers: Mapping[str, int] = {}
    ) -> dict[str, Exclusion | None]:
        """Return for each of these rows, which are in order, why the message does not go there;
        None if it does. `numbers` says which of the lists a row is on; the first, by default."""
        elsewhere: set[str] = set()
        for name in self._exclude_lists:
            elsewhere |= await self._confirmed_among(name, rows)
        if self._recipients.is_needed:
            await self._recipients.look_up(
                [Address(row[_PREFIX:]) for row in rows], self._moved(rows, numbers)
            )
        number = numbers.get
        return {
            row: self._exclusion(row, each, elsewhere, number(row, 0)) for row, each in rows.items()
        }

    def _moved(
        self, rows: dict[str, AttributeRow], numbers: Mapping[str, int]
    ) -> list[MovedSubscriber]:
        return [
            moved
            for row, each in rows.items()
            if each.FormerAddresses
            for moved in moved_among(self._lists[numbers.get(row, 0)], [(row, each)])
        ]

    def _exclusion(
        self, row: str, subscriber: AttributeRow, elsewhere: set[str], number: int
    ) -> Exclusion | None:
        if not subscriber.Verified:
            return Exclusion.UNCONFIRMED
        if subscriber.Blocked:
            return Exclusion.BLOCKED
        if not subscriber.may_receive:
            return Exclusion.PAUSED
        if self._segment is not None or self._excluded:
            values = self._values(row, subscriber, number)
            if self._segment is not None and not self._segment(values):
                return Exclusion.OUTSIDE_SEGMENT
            if any(selects(values) for selects in self._excluded):
                return Exclusion.EXCLUDED_SEGMENT
        return Exclusion.EXCLUDED_LIST if row in elsewhere else None

    def _values(self, row: str, subscriber: AttributeRow, number: int) -> dict[str, FieldValue]:
        address = Address(subscriber.EmailAddress or row[_PREFIX:])
        return self._fields[number].values(address, subscriber.CreatedAt, subscriber.known)

    async def _confirmed_among(self, name: ListName, rows: dict[str, AttributeRow]) -> set[str]:
        """Return the rows that are also confirmed subscribers of another list.

        Both lists are in the same order, so the whole of a fan-out reads the other one once.
        """
        found: set[str] = set()
        if not rows:
            return found
        start, last = next(iter(rows)), next(reversed(rows))
        while start <= last:
            within = KeyRange.between(start, last)
            others = await self._table.read(_OtherRow, name, within, limit=_AT_ONCE)
            found |= {row for row, other in others.items() if other.Verified and row in rows}
            if len(others) < _AT_ONCE:
                break
            start = entities.key_after(next(reversed(others)))
        return found


def _fields(rules: AudienceRules, number: int, name: ListName) -> Fields:
    former = rules.former_names(number, name)
    return Fields(
        Field(field, kind, formerly=former.get(field, "")) for field, kind in rules.types.items()
    )


def _compiled(rule: str, *, today: date, recipients: MessageRecipients) -> Selects:
    return compile_rule(parse_rule(rule), today, recipients.received)
