"""Who opened and clicked, for rules such as `clicked 634852858215726983`, `inactive for 180 days`.

Only those are known who agree to personal tracking now. Who clicked a message is read once, when
the first subscribers are looked up; the days of last opens and clicks are on the subscribers' rows.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Final

from postroom.domain.audience.addresses import Address, AddressKey
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.audience.rules import Operator, RuleComparison, first_day
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services import entities
from postroom.services.audience.results.people import PeopleRows, Person, place_of
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.message_entities import message_from
from postroom.services.partial_rows import EngagedRow
from postroom.storage import KeyRange, Store, eq

MOST_MESSAGES: Final = 500
"""How many messages of a list, the last ones, `clicked "part of a URL"` looks at."""

_AT_ONCE: Final = 1000
_TABLES_AT_ONCE: Final = 32
_PREFIX: Final = len(entities.EMAIL_PREFIX)


class EngagedSubscribers:
    def __init__(
        self,
        store: Store,
        people: PeopleRows,
        links: LinkTables,
        lists: Sequence[ListName],
        asked: Mapping[str, RuleComparison],
        messages: Mapping[str, Message],
        today: date,
    ) -> None:
        """`asked` is what rules ask, `messages` are those that they name."""
        self._store = store
        self._table = store.table(entities.LISTS)
        self._people = people
        self._links = links
        self._lists = lists
        self._asked = asked
        self._messages = messages
        self._today = today
        self._guids: dict[str, set[SubscriberGuid]] | None = None

    async def look_up(self, wanted: Sequence[AddressKey]) -> dict[str, set[AddressKey]]:
        """Return for each question who of these addresses, which are in order, it holds for: on any
        of the lists."""
        if self._guids is None:
            self._guids = {
                key: await self._who_did(each)
                for key, each in self._asked.items()
                if each.period is None
            }
        found: dict[str, set[AddressKey]] = {key: set() for key in self._asked}
        keys = set(wanted)
        for name in self._lists:
            async for address, row in self._rows(name, wanted[0], wanted[-1]):
                if address not in keys or not row.Tracking:
                    continue
                for key, each in self._asked.items():
                    if self._holds(each, row, self._guids.get(key, ())):
                        found[key].add(address)
        return found

    def _holds(self, asked: RuleComparison, row: EngagedRow, guids: Collection[str]) -> bool:
        if asked.period is None:
            return any(guid in guids for guid in row.guids)
        first = first_day(asked.period, self._today)
        match asked.operator:
            case Operator.OPENED_WITHIN:
                return row.LastOpenedAt is not None and row.LastOpenedAt.date() >= first
            case Operator.CLICKED_WITHIN:
                return row.LastClickedAt is not None and row.LastClickedAt.date() >= first
            case _:
                known = (row.TrackingSince, row.LastOpenedAt, row.LastClickedAt)
                days = [each.date() for each in known if each is not None]
                return bool(days) and max(days) < first

    async def _who_did(self, asked: RuleComparison) -> set[SubscriberGuid]:
        if asked.operator is Operator.CLICKED_LINK:
            return await self._who_clicked(str(asked.values[0]).casefold())
        message = self._messages[str(asked.values[0])]
        if message.track is not Track.PERSONAL:
            return set()
        is_click = asked.operator is Operator.CLICKED
        return {
            each.guid
            async for each in self._of_message(message)
            if (each.clicked_at if is_click else each.opened_at) is not None
        }

    async def _who_clicked(self, part: str) -> set[SubscriberGuid]:
        found: set[SubscriberGuid] = set()
        newest = await self._newest()
        for start in range(0, len(newest), _TABLES_AT_ONCE):
            some = newest[start : start + _TABLES_AT_ONCE]
            tables = await asyncio.gather(*map(self._links.read, some))
            for message, table in zip(some, tables, strict=True):
                links = {n for n, url in enumerate(table or ()) if part in url.casefold()}
                if links:
                    found |= {
                        each.guid
                        async for each in self._of_message(message)
                        if not links.isdisjoint(each.links)
                    }
        return found

    async def _newest(self) -> list[Message]:
        """Return the messages to the lists that were sent last with personal tracking."""
        newest: list[tuple[datetime, str, str, Message]] = []
        for name in (entities.MESSAGES, entities.ARCHIVE):
            personal = self._store.table(name).scan(where=eq("Track", Track.PERSONAL.value))
            async for entity in personal:
                message = message_from(entity)
                if message.queued_at is None or set(self._lists).isdisjoint(message.lists):
                    continue
                heapq.heappush(newest, (message.queued_at, message.ref, name, message))
                if len(newest) > MOST_MESSAGES:
                    heapq.heappop(newest)
        # A message that is being archived is in both tables.
        return list({ref: message for _, ref, _, message in newest}.values())

    async def _of_message(self, message: Message) -> AsyncIterator[Person]:
        after: str | None = None
        while True:
            some = await self._people.some(message.ref, after, _AT_ONCE)
            for each in some:
                yield each
            if len(some) < _AT_ONCE:
                return
            after = place_of(some[-1].guid)

    async def _rows(
        self, name: ListName, first: AddressKey, last: AddressKey
    ) -> AsyncIterator[tuple[AddressKey, EngagedRow]]:
        start = entities.EMAIL_PREFIX + first
        while True:
            within = KeyRange.between(start, entities.EMAIL_PREFIX + last)
            rows = await self._table.read(EngagedRow, name, within, limit=_AT_ONCE)
            for row, each in rows.items():
                yield AddressKey(Address(row[_PREFIX:])), each
            if len(rows) < _AT_ONCE:
                return
            start = entities.key_after(next(reversed(rows)))
