"""The rows of subscribers: two in the partition of the list, `email:KEY` and `guid:GUID`.

They are written and removed in one batch, so that there is never one without the other.

The key is the address without differences of case, so all spellings of an address are one
subscriber; mail goes to the spelling that was given first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName, Subscriber, SubscriberGuid, new_guid
from postroom.domain.errors import Exists, NoSuch, Overtaken
from postroom.services import entities
from postroom.services.audience.departures import Departures
from postroom.services.audience.list_growth import ListCounts
from postroom.services.audience.lists import ListService
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import (
    AlreadyExists,
    Batch,
    Conflict,
    Delete,
    Insert,
    NotFound,
    Operation,
    Replace,
    StaleETag,
    Step,
    Store,
)


class SubscriberRows:
    """Reads and writes single subscribers, and keeps the counts of their lists up to date."""

    def __init__(self, store: Store, lists: ListService, counts: ListCounts) -> None:
        self.table = store.table(entities.LISTS)
        self._store = store
        self._lists = lists
        self._counts = counts
        self._departures = Departures(store)

    async def find(self, name: ListName, address: Address) -> Subscriber | None:
        found = await self.table.get(name, entities.email_row(address))
        return None if found is None else entities.subscriber_from(found)

    async def sign_up(self, new: Subscriber, known: Subscriber | None) -> Subscriber:
        """Return the known subscriber, the new one, or one that was added at the same moment. The
        new attributes of a known one wait for the confirmation."""
        name, address = new.list_name, new.address
        if known is not None:
            return await self._with_pending(known, new)
        try:
            etags = await self.table.apply(insertion(new))
        except AlreadyExists as exc:
            found = await self.find(name, address)
            if found is None:
                raise Overtaken("subscriber", address) from exc
            return await self._with_pending(found, new)
        await self._counts.changed(name, None, new)
        return msgspec.structs.replace(new, etag=etags[0])

    async def _with_pending(self, known: Subscriber, again: Subscriber) -> Subscriber:
        """Remember what someone who has not confirmed gave at a later sign-up."""
        attributes = again.attributes
        current: Subscriber | None = known

        async def attempt() -> Subscriber:
            nonlocal current
            found, current = current or await self.find(known.list_name, known.address), None
            if found is None or found.verified:
                return found or known
            if not again.consent and _after(found, attributes) == _after(found):
                return found
            new = msgspec.structs.replace(
                found, pending_attributes=attributes, consent=again.consent or found.consent
            )
            return await self.save(found, new, found.etag)

        return await retry_on_conflict(attempt, "subscriber", known.address)

    async def insert(self, new: Subscriber) -> Subscriber:
        """Insert both rows of a subscriber. `AlreadyExists`; `NoSuch` if the list is deleted."""
        etag = (await self.table.apply(insertion(new)))[0]
        await self.keep(new)
        await self._counts.changed(new.list_name, None, new)
        return msgspec.structs.replace(new, etag=etag)

    async def keep(self, new: Subscriber) -> None:
        """Check the list again. `NoSuch` if it is being deleted: then our rows are removed, too.

        The deletion may have missed them, and they would reappear with a new list of that name.
        """
        try:
            await self._lists.check_exists(new.list_name)
        except NoSuch:
            await self.remove(new)
            raise

    async def save(self, old: Subscriber, new: Subscriber, etag: str) -> Subscriber:
        try:
            saved = await self.table.replace(entities.subscriber_entity(new), etag)
        except Conflict as exc:
            raise Overtaken("subscriber", new.address) from exc
        await self._counts.changed(new.list_name, old, new)
        return msgspec.structs.replace(new, etag=saved)

    async def change_address(self, old: Subscriber, new: Subscriber) -> Subscriber:
        """Replace the rows of `old` by those of `new`. `Exists`, `Overtaken`."""
        entity = entities.subscriber_entity(new)
        changes: list[Operation] = [Replace(each) for each in entities.lookup_entities(new)]
        if new.key == old.key:
            changes.insert(0, Replace(entity, old.etag))
        else:
            row = entities.email_row(old.address)
            changes[:0] = [Insert(entity), Delete(old.list_name, row, old.etag)]
        try:
            etags = await self.table.apply(changes)
        except AlreadyExists as exc:
            raise Exists("subscriber", new.address) from exc
        except (StaleETag, NotFound) as exc:
            raise Overtaken("subscriber", old.address) from exc
        return msgspec.structs.replace(new, etag=etags[0])

    async def leave(self, subscriber: Subscriber) -> bool:
        """Record the departure, then remove; return False if another process was faster."""
        name, address = subscriber.list_name, subscriber.address
        steps: list[Step] = [
            self._departures.noting(name, address, clock.now()),
            Batch(entities.LISTS, entities.subscriber_removal(subscriber)),
        ]
        try:
            await self._store.write_in_order(steps)
        except NotFound:
            try:
                await self._lists.get(name)
            except NoSuch:
                # Deleted in the meantime: the deletion may have missed the row that we wrote.
                await self._departures.forget(name, address)
            return False
        await self._counts.changed(name, subscriber, None)
        return True

    async def remove(self, subscriber: Subscriber, etag: str | None = None) -> bool:
        """Remove both rows; return False if another process was faster."""
        try:
            await self.table.apply(entities.subscriber_removal(subscriber, etag))
        except NotFound:
            return False
        await self._counts.changed(subscriber.list_name, subscriber, None)
        return True


def _after(known: Subscriber, pending: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the attributes after a confirmation."""
    return {**known.attributes, **(known.pending_attributes if pending is None else pending)}


def new_subscriber(
    name: ListName,
    address: Address,
    *,
    verified: bool,
    attributes: Mapping[str, Any] = {},
    consent: str = "",
) -> Subscriber:
    now = clock.now()
    return Subscriber(
        list_name=name,
        address=address,
        guid=SubscriberGuid(new_guid()),
        verified=verified,
        created_at=now,
        verified_at=now if verified else None,
        attributes=attributes,
        consent=consent,
    )


def insertion(subscriber: Subscriber) -> list[Insert]:
    rows = [entities.subscriber_entity(subscriber), *entities.lookup_entities(subscriber)]
    return [Insert(each) for each in rows]
