"""Counts the senders, and shares a limit of connections to a mail server among them.

| table      | partition     | row        | holds                    |
|------------|---------------|------------|--------------------------|
| `throttle` | `connections` | the sender | At: its last sign of life |

Every few seconds, each sender writes a sign of life and counts the others. A new sender counts
itself before it opens a connection, and the others notice within seconds; a dead one is dropped as
quickly. Until then there may be a few connections more, or fewer, than the limit allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from postroom import clock
from postroom.sender.limits.stored_limits import TABLE
from postroom.services.entities import read
from postroom.storage import Entity, KeyRange, NotFound, Store, StoreError
from postroom.transport.contract import Transport
from postroom.watchdog import end_tasks

log = logging.getLogger(__name__)

PARTITION = "connections"
_EVERY = 3.0
_ALIVE = timedelta(seconds=10)
_FORGOTTEN = timedelta(minutes=5)


@asynccontextmanager
async def shared_connections(
    store: Store, transport: Transport, owner: str, most: int | None
) -> AsyncIterator[None]:
    """Count as a sender, and keep to our share of `most` connections. None: no common limit."""
    share = _Share(store, transport, owner, most)
    await share.take_first()
    keeping = asyncio.create_task(share.keep())
    try:
        yield
    finally:
        await end_tasks([keeping])
        await share.give_up()


async def count_senders(store: Store) -> int:
    """Return how many senders there are now: at least one."""
    now = clock.now()
    rows = store.table(TABLE).scan(KeyRange.only(PARTITION))
    return max(1, len([row async for row in rows if now - read(row, "At", datetime) <= _ALIVE]))


class _Share:
    def __init__(self, store: Store, transport: Transport, owner: str, most: int | None) -> None:
        self._table = store.table(TABLE)
        self._transport = transport
        self._owner = owner
        self._most = most

    async def take_first(self) -> None:
        """Take our share; during a store outage, one connection until it can be counted."""
        try:
            await self.take()
        except StoreError as exc:
            log.warning("the senders cannot be counted: %s", exc)
            if self._most is not None:
                self._transport.limit_connections(1)

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.take()
            except StoreError as exc:
                log.warning("the number of connections stays as it is: %s", exc)

    async def take(self) -> None:
        """Write a sign of life, count the senders, and take our share: at least one connection."""
        now = clock.now()
        await self._table.upsert(Entity(PARTITION, self._owner, {"At": now}))
        alive = 0
        async for entity in self._table.scan(KeyRange.only(PARTITION)):
            age = now - read(entity, "At", datetime)
            if age <= _ALIVE:
                alive += 1
            elif age > _FORGOTTEN:
                await self._forget(entity.row)
        if self._most is not None:
            self._transport.limit_connections(max(1, self._most // max(alive, 1)))

    async def give_up(self) -> None:
        with suppress(StoreError):
            await self._forget(self._owner)

    async def _forget(self, owner: str) -> None:
        with suppress(NotFound):
            await self._table.delete(PARTITION, owner)
