"""Finding subscribers: by the GUID in a link, by address, and all of a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from postroom.domain.audience.addresses import folded, parse_address
from postroom.domain.audience.lists.lists import ListName, Subscriber, parse_guid, parse_list_name
from postroom.domain.errors import NoSuch
from postroom.services import entities
from postroom.services.audience.lists import ListService
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.storage import KeyRange, eq


class SubscriberSlice(msgspec.Struct, frozen=True):
    """Some subscribers in the order of their addresses; `next` continues."""

    subscribers: list[Subscriber]
    next: str | None


class SubscriberReading:
    """Finds the subscribers that `SubscriptionService` changes."""

    def __init__(self, rows: SubscriberRows, lists: ListService) -> None:
        self.rows = self._rows = rows
        self._lists = lists

    async def by_guid(self, list_name: str, guid: str) -> Subscriber | None:
        """Return the owner of a link, with two point reads."""
        name, wanted = parse_list_name(list_name, "listName"), parse_guid(guid)
        return (await self._rows.owner(name, wanted))[0]

    async def get(self, list_name: str, email: str) -> Subscriber:
        """Return a subscriber. `NoSuch` list or subscriber."""
        mailing_list, address = await self._lists.get(list_name), parse_address(email)
        found = await self._rows.find(mailing_list.name, address)
        if found is None:
            raise NoSuch("subscriber", address)
        return found

    async def slice(
        self,
        list_name: str,
        *,
        verified: bool | None = None,
        prefix: str = "",
        limit: int = 100,
        after: str | None = None,
    ) -> SubscriberSlice:
        """Return subscribers in the order of their addresses, or those that begin with `prefix`."""
        mailing_list = await self._lists.get(list_name)
        result = await self._rows.table.query(
            KeyRange.only(mailing_list.name),
            KeyRange.prefix(entities.EMAIL_PREFIX + folded(prefix)),
            where=None if verified is None else eq("Verified", verified),
            limit=limit,
            after=after,
        )
        return SubscriberSlice([entities.subscriber_from(e) for e in result.entities], result.next)

    async def all(
        self,
        list_name: ListName,
        rows: Sequence[KeyRange] = (KeyRange.prefix(entities.EMAIL_PREFIX),),
    ) -> AsyncIterator[Subscriber]:
        """Yield every subscriber of a list, or those in ranges of its rows, in flat memory."""
        for each in rows:
            async for entity in self._rows.table.scan(KeyRange.only(list_name), each):
                yield entities.subscriber_from(entity)
