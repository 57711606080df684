"""Reads the recipients of a message from its lists, in the order of their addresses' keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.field_texts import field_texts, stored_texts
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.audience.rules.evaluating import Selects
from postroom.domain.audience.time_zones import ZONE_FIELD
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.domain.messages.refs import MessageRef
from postroom.mail.personal.content_conditions import HOLDS
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.audience.targeting.key_ranges import EVERY_ROW, KeyRanges, within
from postroom.services.audience.targeting.merged_lists import PeopleReader
from postroom.services.audience.targeting.selection import Selection
from postroom.services.partial_rows import AttributeRow, SubscriberRow
from postroom.storage import KeyRange, Table

_WINDOW: Final = 10 * PAGE_SIZE  # the most that one query of the store returns
_PREFIX: Final = len(entities.EMAIL_PREFIX)
_REFUSED_AT_ONCE: Final = 100


class Members(msgspec.Struct, frozen=True):
    """Subscribers in the order of their addresses' keys, with their GUIDs; and, if the message uses
    fields, with their values. Those on additional lists of the message have their list's number."""

    guids: dict[Address, SubscriberGuid]
    values: dict[Address, tuple[str, ...]]
    numbers: dict[Address, int] = {}
    zones: dict[Address, str] = {}
    """Their time zones, if the message is sent by local time."""


class MembersReader(Protocol):
    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        """Return the next recipients after an address; none at the end.

        Finding them may take a whole scan of the list, so `check` is called after each read; what
        it raises ends the search.
        """


Belongs = Callable[[Address, SubscriberGuid, str], bool]
"""Whether someone belongs to a part of the recipients, by address, GUID and time zone."""


class UsedFields(msgspec.Struct, frozen=True):
    """The fields and conditions that a message uses: none, for most messages."""

    fields: Fields
    names: tuple[str, ...] = ()
    conditions: tuple[Selects, ...] = ()
    with_zones: bool = False

    @property
    def row(self) -> type[SubscriberRow]:
        """What has to be read of a subscriber."""
        is_needed = self.has_values or self.with_zones
        return AttributeRow if is_needed else SubscriberRow

    @property
    def has_values(self) -> bool:
        return bool(self.names or self.conditions)

    def members(self, rows: Iterable[tuple[str, SubscriberRow]]) -> Members:
        """Return the subscribers of some rows."""
        if self.row is SubscriberRow:
            guids = {
                Address(each.EmailAddress or row[_PREFIX:]): each.SubscriberGUID
                for row, each in rows
            }
            return Members(guids, {})
        found = {Address(each.EmailAddress or row[_PREFIX:]): each for row, each in rows}
        guids = {address: each.SubscriberGUID for address, each in found.items()}
        values = self._values(found) if self.has_values else {}
        return Members(guids, values, {}, self.zones(found))

    def zones(self, found: Mapping[Address, SubscriberRow]) -> dict[Address, str]:
        """Return the time zones of some subscribers, if they matter."""
        if not self.with_zones:
            return {}
        rows = ((who, each) for who, each in found.items() if isinstance(each, AttributeRow))
        return {who: _zone_in(each.Attributes) for who, each in rows if each.Attributes}

    def _values(self, found: dict[Address, SubscriberRow]) -> dict[Address, tuple[str, ...]]:
        are_texts = not self.conditions and self.fields.texts.issuperset(self.names)
        quick = stored_texts(self.names) if are_texts else None
        values: dict[Address, tuple[str, ...]] = {}
        for address, each in found.items():
            if isinstance(each, AttributeRow):
                texts = quick(each.Attributes) if quick is not None else None
                values[address] = self.texts(address, each) if texts is None else texts
        return values

    def texts(self, address: Address, row: AttributeRow) -> tuple[str, ...]:
        """Return the values of one subscriber."""
        attributes = row.known
        texts = field_texts(self.fields, self.names, address, row.CreatedAt, attributes)
        if not self.conditions:
            return texts
        known = self.fields.values(address, row.CreatedAt, attributes)
        return texts + tuple(HOLDS if selects(known) else "" for selects in self.conditions)


class ListMembers:
    """Everyone on a list who may receive messages."""

    _ranges: KeyRanges = (EVERY_ROW,)

    def __init__(self, table: Table, name: ListName, fields: UsedFields) -> None:
        self._table = table
        self._name = name
        self._fields = fields

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        behind = None if key is None else entities.key_after(entities.email_row(key))
        left = within(self._ranges, behind)
        found: list[tuple[str, SubscriberRow]] = []
        while left and len(found) * 2 < _WINDOW:
            more, last = await self._read(left[0])
            check()
            found += more
            left = left[1:] if last is None else within(left, entities.key_after(last))
        return self._fields.members(found)

    async def _read(
        self, rows_of: KeyRange
    ) -> tuple[Iterable[tuple[str, SubscriberRow]], str | None]:
        """Return recipients among the next rows, and the last of these rows if more may follow."""
        # Without a filter: the store would have to look into each row, and most may receive it.
        rows = await self._table.read(self._fields.row, self._name, rows_of, limit=_WINDOW)
        chosen = [(row, each) for row, each in rows.items() if each.may_receive]
        return chosen, next(reversed(rows)) if len(rows) == _WINDOW else None


class SelectedMembers(ListMembers):
    """Those on a list who belong to an audience."""

    def __init__(
        self, table: Table, name: ListName, fields: UsedFields, selection: Selection
    ) -> None:
        super().__init__(table, name, fields)
        self._selection = selection
        self._ranges = selection.ranges

    async def _read(
        self, rows_of: KeyRange
    ) -> tuple[Iterable[tuple[str, SubscriberRow]], str | None]:
        rows = await self._table.read(AttributeRow, self._name, rows_of, limit=_WINDOW)
        exclusions = await self._selection.exclusions(rows)
        chosen = [(row, each) for row, each in rows.items() if exclusions[row] is None]
        return chosen, next(reversed(rows)) if len(rows) == _WINDOW else None


class MembersOfLists:
    """Those on several lists who belong to an audience, each person once."""

    def __init__(
        self,
        table: Table,
        names: Sequence[ListName],
        fields: Sequence[UsedFields],
        selection: Selection,
    ) -> None:
        """`fields` has those of each list."""
        self._table = table
        self._names = names
        self._fields = fields
        self._selection = selection
        self._reader: PeopleReader[AttributeRow] | None = None
        self._last: AddressKey | None = None

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        if self._reader is None or key != self._last:
            behind = None if key is None else entities.email_row(key)
            self._reader = PeopleReader(
                self._table, self._names, AttributeRow, behind, self._selection.ranges
            )
        reader, found = self._reader, Members({}, {}, {}, {})
        while not reader.is_at_end and len(found.guids) * 2 < _WINDOW:
            people = await reader.read()
            check()
            exclusions = await self._selection.exclusions(people.rows, people.numbers)
            for row, each in people.rows.items():
                if exclusions[row] is None:
                    self._add(found, row, each, people.numbers[row])
        if found.guids:
            self._last = address_key(next(reversed(found.guids)))
        return found

    def _add(self, found: Members, row: str, subscriber: AttributeRow, number: int) -> None:
        address = Address(subscriber.EmailAddress or row[_PREFIX:])
        found.guids[address] = subscriber.SubscriberGUID
        if number:
            found.numbers[address] = number
        fields = self._fields[number]
        if fields.has_values:
            found.values[address] = fields.texts(address, subscriber)
        found.zones.update(fields.zones({address: subscriber}))


class MembersOfWave:
    """Those of some recipients who belong to a part of them."""

    def __init__(self, members: MembersReader, belongs: Belongs) -> None:
        self._members = members
        self._belongs = belongs
        self._read: AddressKey | None = None
        self._last: AddressKey | None = None

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        if key != self._last:
            self._read = key
        found = Members({}, {}, {})
        while len(found.guids) * 2 < _WINDOW:
            more = await self._members.after(self._read, check)
            if not more.guids:
                break
            self._read = address_key(next(reversed(more.guids)))
            self._add(found, more)
        if found.guids:
            self._last = address_key(next(reversed(found.guids)))
        return found

    def _add(self, found: Members, more: Members) -> None:
        for address, guid in more.guids.items():
            if self._belongs(address, guid, more.zones.get(address, "")):
                found.guids[address] = guid
                if address in more.values:
                    found.values[address] = more.values[address]
                if address in more.numbers:
                    found.numbers[address] = more.numbers[address]


class RefusedMembers:
    """The refused recipients of another message, which this one retries."""

    def __init__(
        self,
        services: SchedulerServices,
        message: Message,
        original: MessageRef,
        fields: Sequence[UsedFields],
    ) -> None:
        """`fields` has those of each list."""
        self._lists = services.store.table(entities.LISTS)
        self._messages = services.message_rows
        self._outcomes = services.outcomes
        self._names = message.lists
        self._original = original
        self._fields = fields

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        """Return some subscribers after an address: those that the original did not reach and that
        still want it; none at the end."""
        tried = await self._messages.get(self._original)
        refused: dict[AddressKey, int] = {}
        async for email in self._outcomes.emails_after(tried, EmailOutcome.REFUSED, key):
            refused[address_key(email.address)] = email.list_number
            if len(refused) == _REFUSED_AT_ONCE:
                wanted = await self._still_interested(refused)
                check()
                if wanted.guids:
                    return wanted
                refused = {}
        return await self._still_interested(refused)

    async def _still_interested(self, refused: Mapping[AddressKey, int]) -> Members:
        """Return the subscribers that are on their lists, given by number, verified and not
        blocked."""
        found = await asyncio.gather(
            *(
                self._lists.read(
                    self._fields[number].row,
                    self._names[number],
                    KeyRange.only(entities.email_row(key)),
                )
                for key, number in refused.items()
            )
        )
        wanted = Members({}, {}, {})
        for one, number in zip(found, refused.values(), strict=True):
            more = self._fields[number].members(
                (row, each) for row, each in one.items() if each.may_receive
            )
            wanted.guids.update(more.guids)
            wanted.values.update(more.values)
            if number:
                wanted.numbers.update(dict.fromkeys(more.guids, number))
        return wanted


class _Zone(msgspec.Struct):
    time_zone: Any = ""


def _zone_in(attributes: str) -> str:
    """Return the time zone among the values of someone's fields; empty if there is none."""
    if ZONE_FIELD not in attributes:
        return ""
    zone = msgspec.json.decode(attributes, type=_Zone).time_zone
    return zone if isinstance(zone, str) else ""
