"""Where bounces come in: whatever arrives is stored and queued before it is acknowledged.
It is read later (`processing.py`)."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from postroom import clock
from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE, BOUNCES, BounceSource
from postroom.services.entities import read, read_optional
from postroom.storage import AlreadyExists, Entity, NotFound, Store, Value

LARGEST: Final = 10 * 1024 * 1024
"""Bytes of an email or an event; mail servers return only headers where they can."""

SOURCE, RECIPIENT = "source", "to"
"""Properties of a queue message: where it came from, and the envelope's recipient."""

_SLICE = 500
_USED: Final = "hooktoken"
"""Table: source / digest of a token that must not be used again; At, Digest (of the content that
came with it), IsStored. Earlier versions wrote only At, after storing the content."""


def _row(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def _may_be_stored(found: Entity, new: Entity) -> bool:
    """Return whether the token in `found` was used for the same content, which was then not
    stored."""
    is_stored = read_optional(found, "IsStored", bool)
    return is_stored is False and found.properties["Digest"] == new.properties["Digest"]


class BounceIntake:
    def __init__(self, store: Store) -> None:
        self._blobs = store.container(BOUNCES)
        self._queue = store.queue(BOUNCE_QUEUE)
        self._used = store.table(_USED)

    async def keep(self, content: bytes, source: BounceSource, recipient: str = "") -> str:
        """Store and queue an email or an event; return its name. Once this returns, it cannot get
        lost; after an earlier interruption, the deliverer has to send it again. `Invalid`."""
        if len(content) > LARGEST:
            raise Invalid("mail", f"must be at most {LARGEST:,} bytes, not {len(content):,}")
        if not content:
            raise Invalid("mail", "must not be empty")
        digest = hashlib.sha256(content).hexdigest()[:32]
        name = f"{clock.now():%Y-%m-%d}/{digest}-{secrets.token_hex(4)}"
        await self._blobs.put(name, content)
        properties = {SOURCE: source.value, RECIPIENT: recipient[:320]}
        await self._queue.put(name, properties=properties)
        return name

    async def keep_once(self, content: bytes, source: BounceSource, token: str) -> bool:
        """Store and queue an event whose token counts once; return False if the token was used
        before. The token belongs to the first content that comes with it: only that is stored when
        it is sent again after an interruption."""
        digest = hashlib.sha256(content).hexdigest()
        used: dict[str, Value] = {"At": clock.now(), "Digest": digest, "IsStored": False}
        entity = Entity(source.value, _row(token), used)
        try:
            await self._used.insert(entity)
        except AlreadyExists:
            found = await self._used.get(entity.partition, entity.row)
            if found is not None and not _may_be_stored(found, entity):
                return False
        await self.keep(content, source)
        await self._used.upsert(Entity(entity.partition, entity.row, {**used, "IsStored": True}))
        return True

    async def read(self, name: str) -> bytes | None:
        """Return what was stored; None once it has been recorded."""
        try:
            return await self._blobs.read(name)
        except NotFound:
            return None

    async def remove(self, name: str) -> None:
        """Remove what has been recorded. Can be repeated."""
        with suppress(NotFound):
            await self._blobs.delete(name)

    async def forget_old(self, age: timedelta) -> None:
        """Remove items that could not be understood and are older than `age`."""
        before = f"{clock.now() - age:%Y-%m-%d}"
        while True:
            found = await self._blobs.list(limit=_SLICE)
            old = [each.name for each in found.blobs if each.name[:10] < before]
            for name in old:
                await self.remove(name)
            if len(old) < _SLICE:
                break
        async for used in self._used.scan():
            if read(used, "At", datetime) < clock.now() - age:
                with suppress(NotFound):
                    await self._used.delete(used.partition, used.row)
