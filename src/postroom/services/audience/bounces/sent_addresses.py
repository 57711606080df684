"""The address to which the email that a bounce is about was sent: its page says so, even if the
subscriber has left the list or changed the address since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, address_key, parse_address
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.services.messages.sending.page_rows import Page, PageRows

_REMEMBERED: Final = 1_000


class SentEmail(msgspec.Struct, frozen=True):
    """An email as its page knows it."""

    list_name: ListName
    guid: SubscriberGuid
    address: Address


class SentAddresses:
    def __init__(self, pages: PageRows) -> None:
        self._pages = pages
        self._searched: dict[tuple[MessageRef, SubscriberGuid], SentEmail | None] = {}
        """What searching all pages found: the same report may arrive again and again."""

    async def find(
        self, message: Message, guid: SubscriberGuid, candidates: Iterable[str]
    ) -> SentEmail | None:
        """Return the email of a message to the subscriber with this GUID; None if there is none, or
        its address was erased. If it went to one of the `candidates`, a page or two are read for
        each; otherwise all pages are."""
        for each in candidates:
            sent = await self.to(message, each)
            if (found := next((one for one in sent if one.guid == guid), None)) is not None:
                return found
        key = (message.ref, guid)
        if key not in self._searched:
            if len(self._searched) >= _REMEMBERED:
                self._searched.clear()
            self._searched[key] = await self._search(message, guid)
        return self._searched[key]

    async def to(self, message: Message, address: str) -> list[SentEmail]:
        """Return the emails of a message to an address, however it is spelled: one, or none."""
        try:
            key = address_key(parse_address(address))
        except Invalid:
            return []
        page = await self._pages.holding(message, key)
        if page is None:
            return []
        return [_sent(message, page, place) for place in page.emails.places_of(key)]

    async def _search(self, message: Message, guid: SubscriberGuid) -> SentEmail | None:
        async for page in self._pages.whole(message):
            if (place := page.emails.place_of(guid)) is not None:
                return _sent(message, page, place)
        return None


def _sent(message: Message, page: Page, place: int) -> SentEmail:
    lists = (message.list_name, *message.more_lists)
    emails = page.emails
    return SentEmail(lists[emails.list_number(place)], emails.guid(place), emails.addresses[place])
