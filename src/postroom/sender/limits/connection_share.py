"""Connections to a mail server, shared by all senders: each takes its part of a common limit.

| table      | partition     | row        | holds                    |
|------------|---------------|------------|--------------------------|
| `throttle` | `connections` | the sender | At: when it said so last |

Whoever sends says so every few seconds and counts the others. A sender that begins counts itself
before it opens a connection, and the others hear of it within seconds; one that died is forgotten
as soon. In between there may be a few connections more, or fewer, than the limit allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from postroom.sender.limits.throttle import TABLE
from postroom.services.entities import read
from postroom.storage import Entity, KeyRange, NotFound, Store, StoreError
from postroom.transport.contract import Transport

log = logging.getLogger(__name__)

PARTITION = "connections"
_EVERY = 3.0
_ALIVE = timedelta(seconds=10)
_FORGOTTEN = timedelta(minutes=5)


@asynccontextmanager
async def shared_connections(
    store: Store, transport: Transport, owner: str, most: int | None
) -> AsyncIterator[None]:
    """Keep to our part of `most` connections while we send. None: everybody as they like."""
    if most is None:
        yield
        return
    share = _Share(store, transport, owner, most)
    await share.take()
    keeping = asyncio.create_task(share.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await share.give_up()


class _Share:
    def __init__(self, store: Store, transport: Transport, owner: str, most: int) -> None:
        self._table = store.table(TABLE)
        self._transport = transport
        self._owner = owner
        self._most = most

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.take()
            except StoreError as exc:
                log.warning("connections stay as they are: %s", exc)

    async def take(self) -> None:
        """Say that we are here, count who is, and take our part: one connection at least."""
        now = datetime.now(UTC)
        await self._table.upsert(Entity(PARTITION, self._owner, {"At": now}))
        alive = 0
        async for entity in self._table.scan(KeyRange.only(PARTITION)):
            age = now - read(entity, "At", datetime)
            if age <= _ALIVE:
                alive += 1
            elif age > _FORGOTTEN:
                await self._forget(entity.row)
        self._transport.limit_connections(max(1, self._most // max(alive, 1)))

    async def give_up(self) -> None:
        with suppress(StoreError):
            await self._forget(self._owner)

    async def _forget(self, owner: str) -> None:
        with suppress(NotFound):
            await self._table.delete(PARTITION, owner)
