"""The recipients of a message that retries only the refused recipients of another one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.lists import ListName, SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.services import SchedulerServices
from postroom.services import entities
from postroom.storage import KeyRange

Members: TypeAlias = dict[Address, SubscriberGuid]
"""Subscribers in the order of their addresses' keys, with their GUIDs."""

_AT_ONCE: Final = 100


class RefusedRecipients:
    def __init__(self, services: SchedulerServices) -> None:
        self._lists = services.store.table(entities.LISTS)
        self._messages = services.message_rows
        self._pages = services.pages
        self._outcomes = services.outcomes

    async def after(
        self, message: Message, original: MessageRef, key: AddressKey | None
    ) -> Members:
        """Return some subscribers behind an address whom the original did not reach and who still
        want it; none at the end."""
        tried = await self._messages.get(original)
        first = 0 if key is None else await self._pages.first_until(tried, key)
        refused: list[AddressKey] = []
        async for email in self._outcomes.emails(tried, EmailOutcome.REFUSED, first):
            found = address_key(email.address)
            if key is None or found > key:
                refused.append(found)
            if len(refused) == _AT_ONCE:
                if wanted := await self._who_still_want_it(message.list_name, refused):
                    return wanted
                refused = []
        return await self._who_still_want_it(message.list_name, refused)

    async def _who_still_want_it(self, name: ListName, keys: Sequence[AddressKey]) -> Members:
        """Return those who are on the list, verified and not blocked."""
        found = await asyncio.gather(
            *(
                self._lists.read(
                    entities.SubscriberRow, name, KeyRange.only(entities.email_row(key))
                )
                for key in dict.fromkeys(keys)
            )
        )
        return {
            Address(subscriber.EmailAddress or row.removeprefix(entities.EMAIL_PREFIX)): (
                subscriber.SubscriberGUID
            )
            for one in found
            for row, subscriber in one.items()
            if subscriber.may_receive
        }
