"""Idempotency keys: requests that may arrive twice and must count once.

A client sends a key that it has chosen with a request. The first request with a key creates a
record before anything else is done, and adds its response at the end; a repeated request gets that
response. The record also holds what the request will create (the reference of a message) and when
it arrived. So a request whose process died half-way is repeated with the same result: what it
created is found, not created twice.

One table, `idempotency`: partition the API key, row a hash of the client's key.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from datetime import datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.errors import Invalid, NotNow
from postroom.domain.messages.refs import MessageRef, new_ref
from postroom.services import entities
from postroom.storage import AlreadyExists, Conflict, Entity, Store, StoreError, Value, lt

FIELD = "Idempotency-Key"
KEPT = timedelta(hours=24)
ABANDONED = timedelta(seconds=60)
"""A request that takes longer counts as dead: no call of the store takes that long."""

_TABLE = "idempotency"
_SWEPT_EVERY = 3600.0  # seconds


class Begun(msgspec.Struct, frozen=True):
    """A request that is to be carried out now.

    `at` is when it first arrived, `ref` the reference reserved for the message that it creates.
    Both stay the same when it is carried out again after an interruption.
    """

    owner: str
    row: str
    fingerprint: str
    at: datetime
    ref: MessageRef
    etag: str


class Answered(msgspec.Struct, frozen=True):
    """The response to the first request."""

    status: int
    body: str


class IdempotencyService:
    def __init__(self, store: Store) -> None:
        self._records = store.table(_TABLE)
        self._swept_at = clock.monotonic()
        self._sweeping: asyncio.Task[None] | None = None

    async def begin(self, owner: str, key: str, fingerprint: str) -> Begun | Answered:
        """Return `Begun` if the request is to be carried out, or the earlier response.

        `Invalid`: the key was used for another request. `NotNow`: the first one is in progress.
        """
        now = clock.now()
        self._sweep_if_due(now)
        new = Begun(
            owner, hashlib.sha256(key.encode()).hexdigest(), fingerprint, now, new_ref(), ""
        )
        try:
            etag = await self._records.insert(_entity(new, now))
        except AlreadyExists:
            return await self._again(new, now)
        return msgspec.structs.replace(new, etag=etag)

    async def finish(self, begun: Begun, status: int, body: str) -> None:
        """Store the response for repeated requests."""
        answer: dict[str, Value] = {"Status": status, "Body": body}
        with contextlib.suppress(Conflict):  # taken over in the meantime, with the same response
            await self._records.merge(Entity(begun.owner, begun.row, answer), begun.etag)

    async def forget(self, begun: Begun) -> None:
        """Release the key of a request that was refused and did nothing."""
        with contextlib.suppress(Conflict):
            await self._records.delete(begun.owner, begun.row, begun.etag)

    async def _again(self, new: Begun, now: datetime) -> Begun | Answered:
        found = await self._records.get(new.owner, new.row)
        if found is None:  # released at this very moment
            raise NotNow(_UNDER_WAY)
        if now - entities.read(found, "At", datetime) > KEPT:
            return await self._take(new, now, found.etag)
        if entities.read(found, "Fingerprint", str) != new.fingerprint:
            raise Invalid(FIELD, "was used for another request: use a new key for each")
        status = entities.read_optional(found, "Status", int)
        if status is not None:
            return Answered(status, entities.read(found, "Body", str))
        if now - entities.read(found, "TakenAt", datetime) <= ABANDONED:
            raise NotNow(_UNDER_WAY)
        first = msgspec.structs.replace(
            new,
            at=entities.read(found, "At", datetime),
            ref=MessageRef(entities.read(found, "Ref", str)),
        )
        return await self._take(first, now, found.etag)

    async def _take(self, begun: Begun, now: datetime, etag: str) -> Begun:
        try:
            taken = await self._records.replace(_entity(begun, now), etag)
        except Conflict as exc:
            raise NotNow(_UNDER_WAY) from exc
        return msgspec.structs.replace(begun, etag=taken)

    # -- expired records ---------------------------------------------------------------------

    def _sweep_if_due(self, now: datetime) -> None:
        if clock.monotonic() - self._swept_at > _SWEPT_EVERY and self._sweeping is None:
            self._swept_at = clock.monotonic()
            self._sweeping = asyncio.create_task(self.sweep(now - KEPT))
            self._sweeping.add_done_callback(self._swept)

    def _swept(self, _: asyncio.Task[None]) -> None:
        self._sweeping = None

    async def sweep(self, before: datetime) -> None:
        """Remove the records of requests that arrived before this."""
        with contextlib.suppress(StoreError):  # the next sweep does it
            async for record in self._records.scan(where=lt("At", before)):
                with contextlib.suppress(Conflict):
                    await self._records.delete(record.partition, record.row, record.etag)


_UNDER_WAY = f"a request with this {FIELD} is in progress: try again in a moment"


def fingerprint_of(body: bytes) -> str:
    """Return a digest that tells requests apart."""
    return hashlib.sha256(body).hexdigest()


def _entity(begun: Begun, taken_at: datetime) -> Entity:
    properties: dict[str, Value] = {
        "Fingerprint": begun.fingerprint,
        "At": begun.at,
        "TakenAt": taken_at,
        "Ref": begun.ref,
    }
    return Entity(begun.owner, begun.row, properties)
