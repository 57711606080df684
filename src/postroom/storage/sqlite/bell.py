"""Notices messages that other processes put, without polling.

Next to the database is an empty file, the bell. A process that has committed a put writes to it,
and the kernel wakes waiting processes (inotify). If a process dies between its commit and the bell,
nobody is notified, so waiting processes also look every second.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

if sys.platform == "linux":
    from asyncinotify import Inotify, Mask

R = TypeVar("R")

# Seconds after which a message without a notification is noticed. Without inotify: polling.
_LOOK_AGAIN = 1.0 if sys.platform == "linux" else 0.02
_RING_SECONDS = 0.005  # between two rings: the first is immediate, a burst shares the next


class QueueLook(Generic[R]):
    """What a look at the queues found, and in how many seconds a message becomes ready."""

    __slots__ = ("due_in", "found")

    def __init__(self, found: R, due_in: float | None) -> None:
        self.found = found
        self.due_in = due_in


class FileBell:
    """The bell of one store."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-bell")
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._listener: asyncio.Task[None] | None = None
        self._rung = asyncio.Event()
        self._ringing: asyncio.TimerHandle | None = None
        self._again = False

    def ring(self) -> None:
        """Wake all waiting processes. Called after the commit, in the event loop: immediately, or
        in a moment if that was done just now."""
        if self._ringing is None:
            self._ringing = asyncio.get_running_loop().call_later(_RING_SECONDS, self._ring_again)
            os.pwrite(self._file, b"\n", 0)
        else:
            self._again = True

    def _ring_again(self) -> None:
        self._ringing = None
        if self._again:
            self._again = False
            self.ring()

    async def wait(self, look: Callable[[], Awaitable[QueueLook[R]]], timeout: float) -> R:
        """Look whenever there may be something new; return what was found, at the latest after
        `timeout`."""
        if self._listener is None and sys.platform == "linux":
            self._listener = asyncio.create_task(self._listen())
        deadline = time.monotonic() + timeout
        while True:
            rung = self._rung  # taken before the look, so that nothing is missed during it
            seen = await look()
            left = deadline - time.monotonic()
            if seen.found or left <= 0:
                return seen.found
            pause = min(left, _LOOK_AGAIN, left if seen.due_in is None else seen.due_in)
            try:
                async with asyncio.timeout(max(pause, 0.001)):
                    await rung.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        if self._ringing is not None:
            self._ringing.cancel()
        if self._file >= 0:
            if self._again:
                os.pwrite(self._file, b"\n", 0)
            os.close(self._file)
            self._file = -1

    async def _listen(self) -> None:
        with Inotify() as inotify:
            inotify.add_watch(self._path, Mask.MODIFY)
            async for _ in inotify:
                self._rung.set()
                self._rung = asyncio.Event()
