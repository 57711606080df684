"""Records what people do with messages, as long as they agree to it, and shows it.

Consent is looked up when a hit is counted: someone who has withdrawn it counts in the sums only,
even with an email that was sent before. It is looked up again when results are read. What was
recorded until then is removed soon after (`withdrawn_consents.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, TypeVar

import msgspec

from postroom.domain.audience.lists.lists import Subscriber, SubscriberGuid
from postroom.domain.messages.hits import PersonHits
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.services.audience.results.people import PeopleRows, Person, place_of
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.messages.link_tables import LinkTables

T = TypeVar("T")

_AT_ONCE: Final = 32  # subscribers that are looked up together
_MOST_READ: Final = 1000  # rows for one slice: those of people who left are not shown


class PersonResult(msgspec.Struct, frozen=True):
    """When a subscriber first opened a message and clicked a link of it, and which links."""

    subscriber: Subscriber
    opened_at: datetime | None
    clicked_at: datetime | None
    links: tuple[str, ...]


class PeopleSlice(msgspec.Struct, frozen=True):
    """Some people; `next` continues after them."""

    people: list[PersonResult]
    next: str | None


class PersonalHits:
    def __init__(self, rows: PeopleRows, subscribers: SubscriberRows, links: LinkTables) -> None:
        self._rows = rows
        self._subscribers = subscribers
        self._links = links

    async def record(self, message: Message, hits: Mapping[SubscriberGuid, PersonHits]) -> None:
        """Record what those did who agree to it now. Can be repeated."""
        if message.track is not Track.PERSONAL:
            return
        for some in _groups(hits):
            owners = await self._owners(message, some)
            agreed = {
                guid: owner
                for guid, owner in owners.items()
                if owner is not None and owner.tracking
            }
            await self._rows.record(message.ref, {guid: hits[guid] for guid in agreed})
            for guid, person in agreed.items():
                each = hits[guid]
                await self._subscribers.note_engagement(person, each.opened_at, each.clicked_at)
            # Someone who is erased or withdraws consent at this moment, or did so when this was
            # interrupted.
            again = await self._owners(message, agreed)
            for guid, owner in {**owners, **again}.items():
                if owner is None or not owner.tracking:
                    await self._rows.remove(message.ref, guid)

    async def people(
        self, message: Message, *, limit: int = 100, after: str | None = None
    ) -> PeopleSlice:
        """Return what people did who agree that it is recorded. `InvalidValue` for a bad `after`.

        There may be fewer than `limit` even if `next` is set.
        """
        if message.track is not Track.PERSONAL:
            return PeopleSlice([], None)
        table = await self._links.read(message) or ()
        shown: list[PersonResult] = []
        looked = 0
        while True:
            wanted = limit - len(shown)
            rows = await self._rows.some(message.ref, after, wanted)
            for some in _groups(rows):
                owners = await self._owners(message, [each.guid for each in some])
                for each in some:
                    owner = owners[each.guid]
                    if owner is not None and owner.tracking:
                        shown.append(_result(each, owner, table))
            if len(rows) < wanted:
                return PeopleSlice(shown, None)
            after = place_of(rows[-1].guid)
            looked += len(rows)
            if len(shown) >= limit or looked >= _MOST_READ:
                return PeopleSlice(shown, after)

    async def of_subscriber(
        self, subscriber: Subscriber, messages: Iterable[Message]
    ) -> dict[MessageRef, PersonResult]:
        """Return what is recorded about a subscriber in these messages."""
        personal = [each for each in messages if each.track is Track.PERSONAL]
        found: dict[MessageRef, PersonResult] = {}
        for some in _groups(personal):
            people = await asyncio.gather(*(self._of(each, subscriber) for each in some))
            for message, person in zip(some, people, strict=True):
                if person is not None:
                    table = await self._links.read(message) or ()
                    found[message.ref] = _result(person, subscriber, table)
        return found

    async def forget(self, message: Message, guids: Iterable[SubscriberGuid]) -> None:
        """Remove what is recorded about someone in a message, who is being erased; the sums stay.
        Can be repeated."""
        if message.track is Track.PERSONAL:
            for guid in guids:
                await self._rows.remove(message.ref, guid)

    async def _of(self, message: Message, subscriber: Subscriber) -> Person | None:
        for guid in (subscriber.guid, *subscriber.merged_guids):
            if (found := await self._rows.get(message.ref, guid)) is not None:
                return found
        return None

    async def _owners(
        self, message: Message, guids: Iterable[SubscriberGuid]
    ) -> dict[SubscriberGuid, Subscriber | None]:
        guids = list(guids)
        found = await asyncio.gather(*(self._owner(message, each) for each in guids))
        return dict(zip(guids, found, strict=True))

    async def _owner(self, message: Message, guid: SubscriberGuid) -> Subscriber | None:
        for name in message.lists:
            owner, _ = await self._subscribers.owner(name, guid)
            if owner is not None:
                return owner
        return None


def _groups(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while some := list(islice(iterator, _AT_ONCE)):
        yield some


def _result(person: Person, owner: Subscriber, table: Sequence[str]) -> PersonResult:
    links = tuple(table[number] for number in person.links if 0 < number < len(table))
    return PersonResult(owner, person.opened_at, person.clicked_at, links)
