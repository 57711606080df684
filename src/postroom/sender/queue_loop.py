"""The main loop of senders and confirmations: takes work items while there is room for them, and
lets active work finish when it stops."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from postroom.sender.faults.store_outages import StoreOutages
from postroom.storage import Queue, QueueMessage, StoreOutage

WAIT_SECONDS: Final = 5.0  # for work, if no notification comes
_ROOM_SECONDS: Final = 0.05  # between checks for room: results arrive without a notification
_OUTAGE_SECONDS: Final = 1.0
_HELD_SECONDS: Final = 0.5
_DRAIN_SECONDS: Final = 0.5


class Worker(Protocol):
    """The part that processes work items. With `takes_held` it takes them, slowly, even while
    nothing can be sent."""

    takes_held: bool

    def room(self) -> int:
        """Return how many work items may be taken now."""
        ...

    async def is_held(self) -> bool:
        """Return whether nothing can be sent now, because a hold covers all emails."""
        ...

    async def begin(self, items: list[QueueMessage]) -> None:
        """Start working on these items; there may be none."""
        ...

    def stop(self) -> set[asyncio.Task[None]]:
        """Stop what can be stopped; return the tasks that still run."""
        ...


class QueueLoop:
    def __init__(
        self,
        queue: Queue,
        worker: Worker,
        store_outages: StoreOutages,
        *,
        lease: float,
        concurrency: int,
    ) -> None:
        self._queue = queue
        self._worker = worker
        self._store_outages = store_outages
        self._lease = lease
        self._concurrency = concurrency
        self._room_signalled = asyncio.Event()
        self.iterations = 0
        """How often the loop has run, for the watchdog."""

    def signal_room(self) -> None:
        """Signal that there may be room again."""
        self._room_signalled.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Take and work until `stopping`, then drain."""
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done():
                self.iterations += 1
                await self._take(stop)
        finally:
            await self._drain()
            stop.cancel()
            await asyncio.gather(stop, return_exceptions=True)

    async def _take(self, stop: asyncio.Task[bool]) -> None:
        """Take as many items as there is room for, or wait for room or work."""
        room = min(self._concurrency, self._worker.room())
        if room < 1:
            self._room_signalled.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROOM_SECONDS):
                    await self._room_signalled.wait()
            return
        try:
            if await self._worker.is_held():
                await asyncio.wait([stop], timeout=_HELD_SECONDS)
                if not self._worker.takes_held:
                    return
            items = await self._queue.receive(room, lease=self._lease)
            self._store_outages.worked()
            await self._worker.begin(items)
            if not items:
                await self._wait_for_work(stop)
        except StoreOutage as exc:
            self._store_outages.failed(exc, "work waits")
            await asyncio.wait([stop], timeout=_OUTAGE_SECONDS)

    async def _wait_for_work(self, stop: asyncio.Task[bool]) -> None:
        arrival = asyncio.create_task(self._queue.wait(WAIT_SECONDS))
        try:
            await asyncio.wait([stop, arrival], return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
            await asyncio.gather(arrival, return_exceptions=True)

    async def _drain(self) -> None:
        while tasks := self._worker.stop():
            self.iterations += 1
            await asyncio.wait(tasks, timeout=_DRAIN_SECONDS)
