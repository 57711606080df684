"""Knowing of a message that another process put, without asking all the time.

A process that has put a message sends a NOTIFY with the queue's name. One connection of each store
listens for all its waiters. A notification that is lost (its sender died between the commit and the
NOTIFY, or the listening connection was broken) costs a second: every waiter also looks by itself.

NOTIFY is not part of the put's own transaction, although that would lose none: PostgreSQL lets only
one transaction with a NOTIFY commit at a time, flush to disk included, so all puts of all machines
would queue up behind each other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import psycopg

from postroom.storage.errors import StoreError
from postroom.storage.postgres.connection import Database, joined

_LISTEN = b"LISTEN postroom"
_RING = b"""
SELECT pg_notify('postroom', queue)
FROM unnest(string_to_array(%(queues)s, chr(31))) AS rung (queue)
"""

LOOK_AGAIN_SECONDS = 1.0
"""How long a message whose notification was lost may go unseen."""

_RING_SECONDS = 0.005  # between two notifications: the first goes at once, a burst shares the next
_RECONNECT_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Glance:
    """What a look at the queues found, and in how many seconds something becomes due."""

    ready: frozenset[str]
    due_in: float | None


Look: TypeAlias = Callable[[], Awaitable[Glance]]


@dataclass(eq=False, slots=True)
class _Waiter:
    queues: frozenset[str] | None
    besides: frozenset[str]
    woken: asyncio.Event

    def wants(self, queue: str) -> bool:
        return queue not in self.besides and (self.queues is None or queue in self.queues)


class Arrivals:
    """The bell of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiters: set[_Waiter] = set()
        self._listener: asyncio.Task[None] | None = None
        self._ringer: asyncio.Task[None] | None = None
        self._rung: set[str] = set()

    def ring(self, queue: str) -> None:
        """Tell every waiting process that something may be ready. Called after the commit."""
        self._wake(queue)
        self._rung.add(queue)
        if self._ringer is None or self._ringer.done():
            self._ringer = asyncio.create_task(self._ring())

    async def wait(
        self, queues: frozenset[str] | None, besides: frozenset[str], look: Look, timeout: float
    ) -> frozenset[str]:
        """Look, and again whenever there may be something new, until it finds something."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        deadline = time.monotonic() + timeout
        waiter = _Waiter(queues, besides, asyncio.Event())
        self._waiters.add(waiter)
        try:
            while True:
                waiter.woken.clear()  # before the look: what comes during it is not missed
                glance = await _undisturbed(look)
                left = deadline - time.monotonic()
                if glance.ready or left <= 0:
                    return glance.ready
                due_in = left if glance.due_in is None else max(glance.due_in, 0.001)
                await _wait_for(waiter.woken, min(left, due_in, LOOK_AGAIN_SECONDS))
        finally:
            self._waiters.discard(waiter)

    async def finish_ringing(self) -> None:
        """Send what is still to be sent."""
        if self._ringer is not None:
            await asyncio.wait([self._ringer], timeout=LOOK_AGAIN_SECONDS)
            self._ringer.cancel()  # by now they have looked by themselves

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        self._wake(None)

    def _wake(self, queue: str | None) -> None:
        """Let those look who wait for this queue; None: everybody."""
        for waiter in self._waiters:
            if queue is None or waiter.wants(queue):
                waiter.woken.set()

    async def _ring(self) -> None:
        while self._rung and not self._database.closed:
            queues, self._rung = self._rung, set()
            try:
                await self._database.fetch(_RING, {"queues": joined(sorted(queues))})
            except StoreError:
                return  # nobody can be told now; they look by themselves
            await asyncio.sleep(_RING_SECONDS)

    async def _listen(self) -> None:
        """Pass on notifications for as long as the store is open, over whatever connection."""
        failures = 0
        while True:
            try:
                connection = await self._database.connect()
                try:
                    await connection.execute(_LISTEN)
                    self._wake(None)  # for all that was missed
                    failures = 0
                    async for notification in connection.notifies():
                        self._wake(notification.payload)
                finally:
                    await connection.close()
            except (StoreError, psycopg.Error):
                pause = _RECONNECT_SECONDS[min(failures, len(_RECONNECT_SECONDS) - 1)]
                failures += 1
                await asyncio.sleep(pause)


async def _undisturbed(look: Look) -> Glance:
    """A look that is finished also when nobody waits for it any more: to break off a statement
    takes a connection of its own, and those who wait change their minds often."""
    looking = asyncio.ensure_future(look())
    looking.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(looking)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
