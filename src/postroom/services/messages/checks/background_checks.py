"""Checks that take a while, such as trying a link: run in the background, each once, and remembered
for some minutes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Final, Generic, TypeVar

from postroom import clock
from postroom.errors import PostroomError
from postroom.watchdog import end_tasks

log = logging.getLogger(__name__)

V = TypeVar("V")

_AT_ONCE: Final = 8
_REMEMBERED_SECONDS: Final = 600.0
_MOST_REMEMBERED: Final = 2_000


class BackgroundChecks(Generic[V]):
    """Runs `check` for names, several at a time; it must end on its own. What fails is tried again
    the next time someone asks. Results are `remembered` for some seconds."""

    def __init__(
        self, check: Callable[[str], Awaitable[V]], remembered: float = _REMEMBERED_SECONDS
    ) -> None:
        self._check = check
        self._remembered = remembered
        self._known: dict[str, tuple[float, V]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def start(self, names: Iterable[str]) -> None:
        """Begin to check names that are not known yet. Return immediately."""
        for name in names:
            if name not in self._running and not self._is_fresh(name):
                task = self._running[name] = asyncio.create_task(self._run(name))
                task.add_done_callback(partial(self._forget_task, name))

    async def wait(self, names: Collection[str], seconds: float) -> None:
        """Wait until these names have been checked, at most this long."""
        running = [self._running[each] for each in names if each in self._running]
        if running and seconds > 0:
            await asyncio.wait(running, timeout=seconds)

    def results(self, names: Iterable[str]) -> dict[str, V]:
        """Return what is known so far."""
        return {each: self._known[each][1] for each in names if each in self._known}

    def waiting(self, names: Iterable[str]) -> int:
        """Return how many are still being checked."""
        return len(set(names) & self._running.keys())

    async def close(self) -> None:
        """Abandon what is running."""
        await end_tasks(list(self._running.values()))

    def _is_fresh(self, name: str) -> bool:
        known = self._known.get(name)
        return known is not None and clock.monotonic() - known[0] < self._remembered

    async def _run(self, name: str) -> None:
        async with self._turns:
            try:
                result = await self._check(name)
            except PostroomError as exc:
                log.warning("a check before sending failed: %s", exc)
                return
        self._known.pop(name, None)
        while len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[name] = (clock.monotonic(), result)

    def _forget_task(self, name: str, _: asyncio.Task[None]) -> None:
        self._running.pop(name, None)
