"""Reads the recipients of a message from its list, in the order of their addresses' keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.field_texts import field_texts
from postroom.domain.audience.fields import Fields
from postroom.domain.audience.lists import ListName, SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.services.audience.selection import Selection
from postroom.services.entities import AttributeRow, SubscriberRow
from postroom.storage import KeyRange, Table

_WINDOW: Final = 10 * PAGE_SIZE  # the most that one query of the store returns
_PREFIX: Final = len(entities.EMAIL_PREFIX)
_REFUSED_AT_ONCE: Final = 100
_EVERY_ROW: Final = KeyRange.prefix(entities.EMAIL_PREFIX)


class Members(msgspec.Struct, frozen=True):
    """Subscribers in the order of their addresses' keys, with their GUIDs; and, if the message uses
    fields, with their values."""

    guids: dict[Address, SubscriberGuid]
    values: dict[Address, tuple[str, ...]]


class MembersReader(Protocol):
    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        """Return the next recipients behind an address; none at the end.

        Finding them may take a whole scan of the list, so `check` is called after each read; what
        it raises ends the search.
        """


class UsedFields(msgspec.Struct, frozen=True):
    """The fields of a list that a message uses: none, for most messages."""

    fields: Fields
    names: tuple[str, ...]

    @property
    def row(self) -> type[SubscriberRow]:
        """What has to be read of a subscriber."""
        return AttributeRow if self.names else SubscriberRow

    def members(self, rows: Iterable[tuple[str, SubscriberRow]]) -> Members:
        """Return the subscribers of some rows."""
        if not self.names:
            guids = {
                Address(each.EmailAddress or row[_PREFIX:]): each.SubscriberGUID
                for row, each in rows
            }
            return Members(guids, {})
        found = {Address(each.EmailAddress or row[_PREFIX:]): each for row, each in rows}
        guids = {address: each.SubscriberGUID for address, each in found.items()}
        return Members(guids, self._values(found))

    def _values(self, found: dict[Address, SubscriberRow]) -> dict[Address, tuple[str, ...]]:
        values = {}
        for address, each in found.items():
            if isinstance(each, AttributeRow):
                attributes = msgspec.json.decode(each.Attributes) if each.Attributes else {}
                values[address] = field_texts(
                    self.fields, self.names, address, each.CreatedAt, attributes
                )
        return values


class ListMembers:
    """Everybody on a list who may receive messages."""

    def __init__(self, table: Table, name: ListName, fields: UsedFields) -> None:
        self._table = table
        self._name = name
        self._fields = fields

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        start = _EVERY_ROW.start if key is None else entities.behind(entities.email_row(key))
        found: list[tuple[str, SubscriberRow]] = []
        while True:
            more, last = await self._read(KeyRange(start, _EVERY_ROW.stop))
            check()
            found += more
            if last is None or len(found) * 2 >= _WINDOW:
                return self._fields.members(found)
            start = entities.behind(last)

    async def _read(
        self, within: KeyRange
    ) -> tuple[Iterable[tuple[str, SubscriberRow]], str | None]:
        """Return recipients among the next rows, and the last of these rows if more may follow."""
        # Without a filter: the store would have to look into each row, and most may receive it.
        rows = await self._table.read(self._fields.row, self._name, within, limit=_WINDOW)
        chosen = [(row, each) for row, each in rows.items() if each.may_receive]
        return chosen, next(reversed(rows)) if len(rows) == _WINDOW else None


class SelectedMembers(ListMembers):
    """Those on a list who belong to an audience."""

    def __init__(
        self, table: Table, name: ListName, fields: UsedFields, selection: Selection
    ) -> None:
        super().__init__(table, name, fields)
        self._selection = selection

    async def _read(
        self, within: KeyRange
    ) -> tuple[Iterable[tuple[str, SubscriberRow]], str | None]:
        rows = await self._table.read(AttributeRow, self._name, within, limit=_WINDOW)
        exclusions = await self._selection.exclusions(rows)
        chosen = [(row, each) for row, each in rows.items() if exclusions[row] is None]
        return chosen, next(reversed(rows)) if len(rows) == _WINDOW else None


class RefusedMembers:
    """The refused recipients of another message, which this one retries."""

    def __init__(
        self,
        services: SchedulerServices,
        message: Message,
        original: MessageRef,
        fields: UsedFields,
    ) -> None:
        self._lists = services.store.table(entities.LISTS)
        self._messages = services.message_rows
        self._pages = services.pages
        self._outcomes = services.outcomes
        self._name = message.list_name
        self._original = original
        self._fields = fields

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        """Return some subscribers behind an address whom the original did not reach and who still
        want it; none at the end."""
        tried = await self._messages.get(self._original)
        first = 0 if key is None else await self._pages.first_until(tried, key)
        refused: list[AddressKey] = []
        async for email in self._outcomes.emails(tried, EmailOutcome.REFUSED, first):
            found = address_key(email.address)
            if key is None or found > key:
                refused.append(found)
            if len(refused) == _REFUSED_AT_ONCE:
                wanted = await self._who_still_want_it(refused)
                check()
                if wanted.guids:
                    return wanted
                refused = []
        return await self._who_still_want_it(refused)

    async def _who_still_want_it(self, keys: Sequence[AddressKey]) -> Members:
        """Return those who are on the list, verified and not blocked."""
        kind = self._fields.row
        found = await asyncio.gather(
            *(
                self._lists.read(kind, self._name, KeyRange.only(entities.email_row(key)))
                for key in dict.fromkeys(keys)
            )
        )
        return self._fields.members(
            (row, each) for one in found for row, each in one.items() if each.may_receive
        )
