"""Removes what was recorded about opens and clicks of those who no longer agree to it.

The sums of messages stay. Someone who agrees again starts from scratch: what is older than the new
consent is removed, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services import entities
from postroom.services.audience.consent.tracking_consent import (
    ConsentChange,
    consent_change_from,
)
from postroom.services.audience.results.people import PeopleRows
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.concurrency import run_periodically
from postroom.services.messages.message_times import MessageTimes
from postroom.storage import Conflict, Entity, KeyRange, NotFound, Store

_EVERY: Final = 30.0  # seconds
_MESSAGES: Final = 100  # of one page of the index
_CHANGES: Final = 1000  # for one walk over all messages
_TOGETHER: Final = 32  # rows that are removed together


class _Person(msgspec.Struct, frozen=True):
    """Whose rows are to be removed: all, or those about the time before a new consent."""

    change: ConsentChange
    entry: Entity
    since: datetime | None = None


class WithdrawnConsents:
    def __init__(
        self, store: Store, people: PeopleRows, subscribers: SubscriberRows, times: MessageTimes
    ) -> None:
        self._store = store
        self._index = store.table(entities.LIST_INDEX)
        self._people = people
        self._subscribers = subscribers
        self._times = times

    async def run(self, stopping: asyncio.Event) -> None:
        """Finish them every half minute until `stopping`."""
        await run_periodically(
            self._store, "withdrawn consent", lambda _: self.finish(), every=_EVERY,
            stopping=stopping,
        )  # fmt: skip

    async def finish(self) -> int:
        """Remove what is recorded of those whose consent has changed; return how many they are.
        Can be repeated."""
        found = await self._index.query(KeyRange.only(entities.CONSENT_CHANGED), limit=_CHANGES)
        looked_up = await asyncio.gather(*(self._person(each) for each in found.entities))
        people = [each for each in looked_up if each is not None]
        if people:
            async for message in self._personal_messages():
                await self._remove(message, people)
        for each in people:
            await self._forget(each.entry)
        return len(people)

    async def _person(self, entry: Entity) -> _Person | None:
        """Return whose rows are to be removed; None if the consent has not changed."""
        change = consent_change_from(entry)
        owner, _ = await self._subscribers.owner(change.list_name, change.guids[0])
        if owner is None or not owner.tracking:
            # Consent that is about to be given: there is nothing to remove yet.
            return _Person(change, entry)
        if owner.tracking_since is not None and owner.tracking_since >= change.at:
            return _Person(change, entry, owner.tracking_since)
        if change.has_failed(clock.now()):
            await self._forget(entry)
        return None

    async def _remove(self, message: Message, people: Sequence[_Person]) -> None:
        rows = [
            (guid, each.since)
            for each in people
            if each.change.list_name in message.lists
            for guid in each.change.guids
        ]
        for start in range(0, len(rows), _TOGETHER):
            some = rows[start : start + _TOGETHER]
            await asyncio.gather(
                *(self._people.remove(message.ref, guid, since) for guid, since in some)
            )

    async def _forget(self, entry: Entity) -> None:
        """Remove an entry, unless the consent has changed again."""
        with suppress(Conflict, NotFound):
            await self._index.delete(entry.partition, entry.row, entry.etag)

    async def _personal_messages(self) -> AsyncIterator[Message]:
        before: str | None = None
        while True:
            found = await self._times.all(limit=_MESSAGES, before=before)
            for message in found.messages:
                if message.track is Track.PERSONAL:
                    yield message
            if (before := found.next) is None:
                return
