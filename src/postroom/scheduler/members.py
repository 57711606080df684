"""Reads the recipients of a message from its list, in the order of their addresses' keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from postroom.domain.audience.addresses import Address, AddressKey, address_key
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

Members: TypeAlias = dict[Address, SubscriberGuid]
"""Subscribers in the order of their addresses' keys, with their GUIDs."""

_WINDOW: Final = 10 * PAGE_SIZE  # the most that one query of the store returns
_PREFIX: Final = len(entities.EMAIL_PREFIX)
_REFUSED_AT_ONCE: Final = 100
_EVERY_ROW: Final = KeyRange.prefix(entities.EMAIL_PREFIX)


class MembersReader(Protocol):
    async def after(self, key: AddressKey | None) -> Members:
        """Return the next recipients behind an address; none at the end."""


class ListMembers:
    """Everybody on a list who may receive messages."""

    def __init__(self, table: Table, name: ListName) -> None:
        self._table = table
        self._name = name

    async def after(self, key: AddressKey | None) -> Members:
        start = _EVERY_ROW.start if key is None else entities.behind(entities.email_row(key))
        found: Members = {}
        while True:
            within = KeyRange(start, _EVERY_ROW.stop)
            more, last = await self._read(within)
            found |= more
            if last is None or len(found) * 2 >= _WINDOW:
                return found
            start = entities.behind(last)

    async def _read(self, within: KeyRange) -> tuple[Members, str | None]:
        """Return recipients among the next rows, and the last of these rows if more may follow."""
        # Without a filter: the store would have to look into each row, and most may receive it.
        rows = await self._table.read(SubscriberRow, self._name, within, limit=_WINDOW)
        members = {
            Address(subscriber.EmailAddress or row[_PREFIX:]): subscriber.SubscriberGUID
            for row, subscriber in rows.items()
            if subscriber.may_receive
        }
        return members, next(reversed(rows)) if len(rows) == _WINDOW else None


class SelectedMembers(ListMembers):
    """Those on a list who belong to an audience."""

    def __init__(self, table: Table, name: ListName, selection: Selection) -> None:
        super().__init__(table, name)
        self._selection = selection

    async def _read(self, within: KeyRange) -> tuple[Members, str | None]:
        rows = await self._table.read(AttributeRow, self._name, within, limit=_WINDOW)
        exclusions = await self._selection.exclusions(rows)
        members = {
            Address(subscriber.EmailAddress or row[_PREFIX:]): subscriber.SubscriberGUID
            for row, subscriber in rows.items()
            if exclusions[row] is None
        }
        return members, next(reversed(rows)) if len(rows) == _WINDOW else None


class RefusedMembers:
    """The refused recipients of another message, which this one retries."""

    def __init__(self, services: SchedulerServices, message: Message, original: MessageRef) -> None:
        self._lists = services.store.table(entities.LISTS)
        self._messages = services.message_rows
        self._pages = services.pages
        self._outcomes = services.outcomes
        self._name = message.list_name
        self._original = original

    async def after(self, key: AddressKey | None) -> Members:
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
                if wanted := await self._who_still_want_it(refused):
                    return wanted
                refused = []
        return await self._who_still_want_it(refused)

    async def _who_still_want_it(self, keys: Sequence[AddressKey]) -> Members:
        """Return those who are on the list, verified and not blocked."""
        found = await asyncio.gather(
            *(
                self._lists.read(SubscriberRow, self._name, KeyRange.only(entities.email_row(key)))
                for key in dict.fromkeys(keys)
            )
        )
        return {
            Address(subscriber.EmailAddress or row[_PREFIX:]): subscriber.SubscriberGUID
            for one in found
            for row, subscriber in one.items()
            if subscriber.may_receive
        }
