"""The recipients of a message that tries only the failed of another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Final

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.lists import ListName
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.storage import KeyRange

_AT_ONCE: Final = 100


class RefusedRecipients:
    def __init__(self, services: SchedulerServices) -> None:
        self._lists = services.store.table(entities.LISTS)
        self._messages = services.message_rows
        self._outcomes = services.outcomes

    async def after(
        self, message: Message, original: MessageRef, address: AddressKey | None
    ) -> dict[AddressKey, dict[str, str]]:
        """Return some refused recipients of the original, behind an address, who may still receive
        it: in the order of their keys, with the properties of their emails' rows; none at the end.
        """
        tried = await self._messages.get(original)
        if tried.first_keyed_page != 0:
            return await self._after_in_other_order(message, tried, address)
        place = None if address is None else await self._outcomes.place_after(tried, address)
        while True:
            page = await self._outcomes.page(tried, outcome=EmailOutcome.REFUSED, after=place)
            keys = [AddressKey(Address(email.row)) for email in page.emails]
            wanted = await self._who_may_receive(message.list_name, keys)
            place = page.next
            if wanted or place is None:
                return wanted

    async def _after_in_other_order(
        self, message: Message, tried: Message, address: AddressKey | None
    ) -> dict[AddressKey, dict[str, str]]:
        """Do the same for an original whose pages are in the order of spellings: read all."""
        refused = self._outcomes.emails(tried, EmailOutcome.REFUSED)
        keys = sorted({address_key(Address(each.row)) async for each in refused})
        left = (each for each in keys if address is None or each > address)
        while some := list(islice(left, _AT_ONCE)):
            if wanted := await self._who_may_receive(message.list_name, some):
                return wanted
        return {}

    async def _who_may_receive(
        self, name: ListName, keys: Iterable[AddressKey]
    ) -> dict[AddressKey, dict[str, str]]:
        """Return those who are on the list, verified and not blocked."""
        rows = {key: KeyRange.only(entities.email_row(key)) for key in keys}
        found = await asyncio.gather(
            *(self._lists.read(entities.SubscriberRow, name, row) for row in rows.values())
        )
        return {
            key: subscriber.email_properties
            for key, one in zip(rows, found, strict=True)
            for subscriber in one.values()
            if subscriber.may_receive
        }
