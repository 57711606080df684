"""Notices messages that other processes put, without polling.

A process that has put a message sends a NOTIFY with the queue's name. One connection of each store
listens on behalf of all waiters. A notification that is lost (its sender died between the commit
and the NOTIFY, or the listening connection broke) costs a second: every waiter also looks by
itself.

NOTIFY is not part of the put's own transaction, although none would be lost then: PostgreSQL lets
only one transaction with a NOTIFY commit at a time, including the flush to disk, so all puts of all
machines would wait for each other.
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
"""Seconds after which a message without a notification is noticed."""

_RING_SECONDS = 0.005  # between two notifications: the first is immediate, a burst shares the next
_RECONNECT_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class ReadyQueues:
    """The queues with a ready message, and in how many seconds the next one becomes ready."""

    ready: frozenset[str]
    due_in: float | None


Look: TypeAlias = Callable[[], Awaitable[ReadyQueues]]


@dataclass(eq=False, slots=True)
class _Waiter:
    queues: frozenset[str] | None
    besides: frozenset[str]
    woken: asyncio.Event

    def wants(self, queue: str) -> bool:
        return queue not in self.besides and (self.queues is None or queue in self.queues)


class NotifyBell:
    """The bell of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiters: set[_Waiter] = set()
        self._listener: asyncio.Task[None] | None = None
        self._ringer: asyncio.Task[None] | None = None
        self._rung: set[str] = set()

    def ring(self, queue: str) -> None:
        """Wake all processes that wait for this queue. Called after the commit."""
        self._wake(queue)
        self._rung.add(queue)
        if self._ringer is None or self._ringer.done():
            self._ringer = asyncio.create_task(self._ring())

    async def wait(
        self, queues: frozenset[str] | None, besides: frozenset[str], look: Look, timeout: float
    ) -> frozenset[str]:
        """Look whenever there may be something new; return what was found, at the latest after
        `timeout`."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        deadline = time.monotonic() + timeout
        waiter = _Waiter(queues, besides, asyncio.Event())
        self._waiters.add(waiter)
        try:
            while True:
                waiter.woken.clear()  # before the look, so that nothing is missed during it
                seen = await _undisturbed(look)
                left = deadline - time.monotonic()
                if seen.ready or left <= 0:
                    return seen.ready
                due_in = left if seen.due_in is None else max(seen.due_in, 0.001)
                await _wait_for(waiter.woken, min(left, due_in, LOOK_AGAIN_SECONDS))
        finally:
            self._waiters.discard(waiter)

    async def finish_ringing(self) -> None:
        """Send the remaining notifications."""
        if self._ringer is not None:
            await asyncio.wait([self._ringer], timeout=LOOK_AGAIN_SECONDS)
            self._ringer.cancel()  # by now, waiters have looked by themselves

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        self._wake(None)

    def _wake(self, queue: str | None) -> None:
        """Wake the waiters of this process for this queue; None: all of them."""
        for waiter in self._waiters:
            if queue is None or waiter.wants(queue):
                waiter.woken.set()

    async def _ring(self) -> None:
        while self._rung and not self._database.closed:
            queues, self._rung = self._rung, set()
            try:
                await self._database.fetch(_RING, {"queues": joined(sorted(queues))})
            except StoreError:
                return  # nobody can be notified now; waiters look by themselves
            await asyncio.sleep(_RING_SECONDS)

    async def _listen(self) -> None:
        """Pass on notifications while the store is open, and reconnect when the connection
        breaks."""
        failures = 0
        while True:
            try:
                connection = await self._database.connect()
                try:
                    await connection.execute(_LISTEN)
                    self._wake(None)  # notifications may have been missed
                    failures = 0
                    async for notification in connection.notifies():
                        self._wake(notification.payload)
                finally:
                    await connection.close()
            except (StoreError, psycopg.Error):
                pause = _RECONNECT_SECONDS[min(failures, len(_RECONNECT_SECONDS) - 1)]
                failures += 1
                await asyncio.sleep(pause)


async def _undisturbed(look: Look) -> ReadyQueues:
    """Return the result of `look`, which is completed even if the caller is cancelled: interrupting
    a statement takes another connection, and waiters are cancelled often."""
    looking = asyncio.ensure_future(look())
    looking.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(looking)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
