"""What is known about the bounces of each address, and of each message.

| table           | partition            | row            | holds                                  |
|-----------------|----------------------|----------------|----------------------------------------|
| `bouncehistory` | two digits of DIGEST | `DIGEST`       | the last bounces of an address         |
| `messagebounce` | REF, or `unknown`    | `DIGEST,EVENT` | one bounce of an email of this message |

EVENT is a digest of the event ID: a report that arrives again finds its row.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.suppressions import AddressDigest, address_digest
from postroom.domain.messages.delivery.bounces import LONGEST_DIAGNOSTIC, Bounce, BounceKind
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.suppression.bounce_policy import BounceHistory, PastBounce
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read, read_optional
from postroom.services.row_ranges import remove_rows
from postroom.storage import AlreadyExists, Entity, KeyRange, NotFound, Store, eq

_HISTORY: Final = "bouncehistory"
_OF_MESSAGES: Final = "messagebounce"
_UNKNOWN: Final = "unknown"
_REMEMBERED: Final = 20  # bounces of one address: enough for five days in a row
_DIGITS: Final = 16


class RecordedBounce(msgspec.Struct, frozen=True):
    """A bounce of one email. An erased address is empty."""

    digest: AddressDigest
    address: Address
    kind: BounceKind
    at: datetime
    diagnostic: str
    status: str
    source: str
    by_code: bool
    list_name: ListName | None


class BounceSlice(msgspec.Struct, frozen=True):
    """Some bounces of a message; `next` continues."""

    bounces: list[RecordedBounce]
    next: str | None


class BounceRecords:
    def __init__(self, store: Store) -> None:
        self._history = store.table(_HISTORY)
        self._of_messages = store.table(_OF_MESSAGES)

    async def record(self, bounce: Bounce, address: Address) -> Bounce:
        """Record a bounce next to its email; return it with the time when it first arrived."""
        entity = _entity(bounce, address)
        try:
            await self._of_messages.insert(entity)
        except AlreadyExists:
            found = await self._of_messages.get(entity.partition, entity.row)
            if found is not None:
                at = read(found, "At", datetime)
                return msgspec.structs.replace(bounce, received_at=at)
        return bounce

    async def remember(self, bounce: Bounce, digest: AddressDigest) -> BounceHistory:
        """Add a bounce to the history of its address, once; return the history."""

        async def attempt() -> BounceHistory:
            found = await self._history.get(digest[:2], digest)
            before = BounceHistory() if found is None else _history(found)
            event = _event(bounce)
            if any(each.event == event for each in before.bounces):
                return before
            new = PastBounce(event, bounce.kind, bounce.by_code, bounce.received_at)
            last = sorted((*before.bounces, new), key=lambda each: each.at)[-_REMEMBERED:]
            after = msgspec.structs.replace(before, bounces=last)
            if found is None:
                await self._history.insert(_history_entity(digest, after))
            else:
                await self._history.replace(_history_entity(digest, after), found.etag)
            return after

        return await retry_on_conflict(attempt, "bounces of", digest)

    async def clear(self, digest: AddressDigest, at: datetime) -> None:
        """Stop counting the bounces that an address has had so far."""
        await self._history.upsert(_history_entity(digest, BounceHistory(cleared_at=at)))

    async def of_message(self, ref: MessageRef) -> AsyncIterator[RecordedBounce]:
        """Yield the bounces of a message."""
        async for entity in self._of_messages.scan(KeyRange.only(ref)):
            yield _recorded(entity)

    async def slice(
        self, ref: MessageRef, kind: BounceKind | None, *, limit: int, after: str | None = None
    ) -> BounceSlice:
        """Return some bounces of a message, all or those of one kind. `InvalidValue` for a bad
        `after`."""
        where = None if kind is None else eq("Kind", kind.value)
        found = await self._of_messages.query(
            KeyRange.only(ref), where=where, limit=limit, after=after
        )
        return BounceSlice([_recorded(each) for each in found.entities], found.next)

    async def of_email(self, ref: MessageRef, address: Address) -> list[RecordedBounce]:
        """Return the bounces of one email, the earliest first."""
        rows = KeyRange.prefix(f"{address_digest(address)},")
        found = await self._of_messages.query(KeyRange.only(ref), rows)
        return sorted(map(_recorded, found.entities), key=lambda each: each.at)

    async def forget_message(self, ref: MessageRef) -> None:
        """Remove the bounces of a message that is being removed."""
        while True:
            found = await self._of_messages.query(KeyRange.only(ref), limit=100)
            if not found.entities:
                return
            await remove_rows(self._of_messages, ref, [each.row for each in found.entities])

    async def erase_history(self, address: Address) -> None:
        """Remove the history of an address. Can be repeated."""
        digest = address_digest(address)
        with suppress(NotFound):
            await self._history.delete(digest[:2], digest)
        await self.erase_email(_UNKNOWN, address)

    async def erase_email(self, ref: str, address: Address) -> None:
        """Remove an address from the bounces of a message, with what their texts say about it."""
        rows = KeyRange.prefix(f"{address_digest(address)},")
        found = await self._of_messages.query(KeyRange.only(ref), rows)
        for each in found.entities:
            erased = {**each.properties, "Address": "", "Diagnostic": ""}
            with suppress(NotFound):
                await self._of_messages.replace(Entity(each.partition, each.row, erased))


def _event(bounce: Bounce) -> str:
    return hashlib.sha256(bounce.event_id.encode()).hexdigest()[:_DIGITS]


def _entity(bounce: Bounce, address: Address) -> Entity:
    row = f"{address_digest(address)},{_event(bounce)}"
    return Entity(
        bounce.ref or _UNKNOWN,
        row,
        {
            "Address": address,
            "Kind": bounce.kind.value,
            "ByCode": bounce.by_code,
            "At": bounce.received_at,
            "Diagnostic": bounce.diagnostic[:LONGEST_DIAGNOSTIC],
            "Status": bounce.status,
            "Source": bounce.source.value,
            "ListName": bounce.list_name or "",
        },
    )


def _recorded(entity: Entity) -> RecordedBounce:
    list_name = read(entity, "ListName", str)
    return RecordedBounce(
        digest=AddressDigest(entity.row.partition(",")[0]),
        address=Address(read(entity, "Address", str)),
        kind=BounceKind(read(entity, "Kind", str)),
        at=read(entity, "At", datetime),
        diagnostic=read(entity, "Diagnostic", str),
        status=read(entity, "Status", str),
        source=read(entity, "Source", str),
        by_code=read(entity, "ByCode", bool),
        list_name=ListName(list_name) if list_name else None,
    )


def _history_entity(digest: AddressDigest, history: BounceHistory) -> Entity:
    bounces = msgspec.json.encode(history.bounces).decode()
    cleared = {} if history.cleared_at is None else {"ClearedAt": history.cleared_at}
    return Entity(digest[:2], digest, {"Bounces": bounces, **cleared})


def _history(entity: Entity) -> BounceHistory:
    bounces = msgspec.json.decode(read(entity, "Bounces", str), type=tuple[PastBounce, ...])
    return BounceHistory(bounces, read_optional(entity, "ClearedAt", datetime))
