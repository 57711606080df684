"""Reads the recipients of a message from its lists, in the order of their addresses' keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.field_texts import field_texts
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists import ListName, SubscriberGuid
from postroom.domain.audience.rules.evaluating import Selects
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.domain.messages.refs import MessageRef
from postroom.mail.personal.conditions import HOLDS
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.audience.targeting.key_ranges import EVERY_ROW, KeyRanges, within
from postroom.services.audience.targeting.merged_lists import PeopleReader
from postroom.services.audience.targeting.selection import Selection
from postroom.services.entities import AttributeRow, SubscriberRow
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


class MembersReader(Protocol):
    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        """Return the next recipients after an address; none at the end.

        Finding them may take a whole scan of the list, so `check` is called after each read; what
        it raises ends the search.
        """


class UsedFields(msgspec.Struct, frozen=True):
    """The fields and conditions that a message uses: none, for most messages."""

    fields: Fields
    names: tuple[str, ...] = ()
    conditions: tuple[Selects, ...] = ()

    @property
    def row(self) -> type[SubscriberRow]:
        """What has to be read of a subscriber."""
        return AttributeRow if self.names or self.conditions else SubscriberRow

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
        return Members(guids, self._values(found))

    def _values(self, found: dict[Address, SubscriberRow]) -> dict[Address, tuple[str, ...]]:
        return {
            address: self.texts(address, each)
            for address, each in found.items()
            if isinstance(each, AttributeRow)
        }

    def texts(self, address: Address, row: AttributeRow) -> tuple[str, ...]:
        """Return the values of one subscriber."""
        attributes = msgspec.json.decode(row.Attributes) if row.Attributes else {}
        texts = field_texts(self.fields, self.names, address, row.CreatedAt, attributes)
        if not self.conditions:
            return texts
        known = self.fields.values(address, row.CreatedAt, attributes)
        return texts + tuple(HOLDS if selects(known) else "" for selects in self.conditions)


class ListMembers:
    """Everybody on a list who may receive messages."""

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
        reader, found = self._reader, Members({}, {}, {})
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
        if fields.names or fields.conditions:
            found.values[address] = fields.texts(address, subscriber)


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
        self._pages = services.pages
        self._outcomes = services.outcomes
        self._names = message.lists
        self._original = original
        self._fields = fields

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        """Return some subscribers after an address whom the original did not reach and who still
        want it; none at the end."""
        tried = await self._messages.get(self._original)
        first = 0 if key is None else await self._pages.first_until(tried, key)
        refused: dict[AddressKey, int] = {}
        async for email in self._outcomes.emails(tried, EmailOutcome.REFUSED, first):
            found = address_key(email.address)
            if key is None or found > key:
                refused[found] = email.list_number
            if len(refused) == _REFUSED_AT_ONCE:
                wanted = await self._who_still_want_it(refused)
                check()
                if wanted.guids:
                    return wanted
                refused = {}
        return await self._who_still_want_it(refused)

    async def _who_still_want_it(self, refused: Mapping[AddressKey, int]) -> Members:
        """Return those who are on their lists, given by number, verified and not blocked."""
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
