"""What the queues of one store share: message IDs, where each queue begins, waiting, sweeping."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
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
    excluding: frozenset[str]
    woken: asyncio.Event

    def wants(self, queue: str) -> bool:
        return queue not in self.excluding and (self.queues is None or queue in self.queues)


class NotifyBell:
    """Notices messages that other processes put, without polling.

    A process that has put a message sends a NOTIFY with the queue's name. One connection of each
    store listens on behalf of all waiters. A notification that is lost (its sender died between the
    commit and the NOTIFY, or the listening connection broke) costs a second: every waiter also
    looks once a second.

    NOTIFY is not part of the put's own transaction, although none would be lost then. PostgreSQL
    lets only one transaction with a NOTIFY commit at a time, including the flush to disk, so all
    puts of all machines would wait for each other.
    """

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
        self, queues: frozenset[str] | None, excluding: frozenset[str], look: Look, timeout: float
    ) -> frozenset[str]:
        """Look whenever there may be something new; return what was found, at the latest after
        `timeout`."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        deadline = time.monotonic() + timeout
        waiter = _Waiter(queues, excluding, asyncio.Event())
        self._waiters.add(waiter)
        try:
            while True:
                waiter.woken.clear()  # before the look, so that nothing is missed during it
                seen = await _shielded(look)
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
            self._ringer.cancel()  # by now, waiters have looked on their own

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
                return  # nobody can be notified now; waiters look on their own
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


async def _shielded(look: Look) -> ReadyQueues:
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


_FULL_LOOK_SECONDS = 1.0

# When the first message of each queue becomes ready, in seconds from now, and the queue's floor: a
# put that began up to a second ago may not be committed yet.
_FIRST = b"""
SELECT queue.position::int - 1, extract(epoch FROM first.visible_at - now())::float8,
       least(first.visible_at, now() - interval '1 second')
FROM unnest(string_to_array(%(queues)s, chr(31)), string_to_array(%(floors)s, chr(31), ''))
     WITH ORDINALITY AS queue (name, floor, position)
LEFT JOIN LATERAL (
    SELECT visible_at FROM postroom.message
    WHERE message.queue = queue.name AND (expires_at > now()) IS NOT false
    AND visible_at >= coalesce(queue.floor::timestamptz, '-infinity')
    ORDER BY visible_at, id LIMIT 1
) AS first ON true
"""
_NAMES = b"SELECT name FROM postroom.queue"

# Expired messages that nobody receives slow every look down.
_SWEEP = b"""
DELETE FROM postroom.message WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM postroom.message WHERE expires_at <= now() AND visible_at <= now()
    LIMIT 1000 FOR UPDATE SKIP LOCKED
))
"""
# Puts that are no longer retried. Their IDs begin with the time in milliseconds.
_FORGET_PUTS = b"""
DELETE FROM postroom.put WHERE id < rpad(lpad(
    to_hex((extract(epoch FROM now() - interval '10 minutes') * 1000)::bigint), 12, '0'
), 32, '0')::uuid
"""
_SWEEP_SECONDS = 60.0


class QueueMessageIds:
    """IDs of 128 bits, in the order in which they were made: milliseconds, then random bits.

    Messages of one put become visible at the same moment; their IDs keep them in order.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        fresh = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
        self._last = max(fresh, self._last + 1)
        return str(uuid.UUID(int=self._last))


class QueueHead:
    """Where the messages of a queue begin, so that a look can skip those that are done.

    A claim leaves a dead entry at the head of the index, until the next vacuum or as long as an old
    transaction (such as a backup) runs. A look from the very head has to skip all of them; a look
    from the first message that was found the last time does not.

    Messages that became visible before that point (a put that took more than a second to commit, a
    claim that was rolled back) are found by a look from the very head, once per second. If that
    gets expensive, it takes at most a fiftieth of the time.
    """

    def __init__(self) -> None:
        self._floor: datetime | None = None
        self._full_look_at = 0.0
        self._began = 0.0

    def floor(self) -> datetime | None:
        """Return the time to look from; None for the very head."""
        self._began = time.monotonic()
        return None if self._began >= self._full_look_at else self._floor

    def found(self, looked_from: datetime | None, floor: datetime | None) -> None:
        """Record the end of a look. There is nothing before the new floor; None: it stays."""
        if looked_from is None:
            now = time.monotonic()
            self._full_look_at = now + max(_FULL_LOOK_SECONDS, 50 * (now - self._began))
        self._floor = floor or self._floor


class QueueState:
    """The state that all queues of one store share."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.bell = NotifyBell(database)
        self.ids = QueueMessageIds()
        self._heads: dict[str, QueueHead] = {}
        self._next_sweep = time.monotonic() + _SWEEP_SECONDS

    def head(self, queue: str) -> QueueHead:
        return self._heads.setdefault(queue, QueueHead())

    async def wait(
        self, queues: frozenset[str] | None, excluding: frozenset[str], timeout: float
    ) -> frozenset[str]:
        """Wait until a queue has a ready message; return all that have one."""

        async def look() -> ReadyQueues:
            await self.sweep()
            names = queues
            if names is None:
                names = frozenset(name for (name,) in await self.database.fetch(_NAMES))
            return await self._look(sorted(names - excluding))

        return await self.bell.wait(queues, excluding, look, timeout)

    async def _look(self, names: list[str]) -> ReadyQueues:
        heads = [self.head(name) for name in names]
        floors = [head.floor() for head in heads]
        shown = ["" if floor is None else floor.isoformat() for floor in floors]
        values = {"queues": joined(names), "floors": joined(shown)}
        due: dict[str, float] = {}
        for position, due_in, floor in await self.database.fetch(_FIRST, values):
            heads[position].found(floors[position], floor)
            if due_in is not None:
                due[names[position]] = due_in
        ready = frozenset(name for name, due_in in due.items() if due_in <= 0)
        return ReadyQueues(ready, min(due.values(), default=None))

    async def sweep(self) -> None:
        """Remove expired messages and old puts, once per minute."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + _SWEEP_SECONDS
        with suppress(StoreError):  # the next call to the store reports it
            while await self.database.execute(_SWEEP, {}):
                pass
            await self.database.execute(_FORGET_PUTS, {})
