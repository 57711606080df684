"""Events about messages that were given up: at once, and then at most one per minute and queue."""

from __future__ import annotations

import time
from collections.abc import Callable

from postroom.services.events import EventService, Severity

_SECONDS = 60.0
_QUEUES = 1000  # that are remembered


class PoisonNotices:
    """A thousand poison messages are one problem, and one alert."""

    def __init__(self, events: EventService, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._told_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    async def given_up(self, queue: str, identity: str, done: str, error: str) -> None:
        """Tell that a message was given up; `done` says what was done with it."""
        now = self._clock()
        if now < self._told_at.get(queue, float("-inf")) + _SECONDS:
            self._untold[queue] = self._untold.get(queue, 0) + 1
            return
        more = self._untold.pop(queue, 0)
        since = f", and {more:,} more in the last minutes" if more else ""
        if len(self._told_at) >= _QUEUES:
            self._told_at.clear()
        self._told_at[queue] = now
        await self._events.record(
            "host",
            f"message {identity} of {queue} failed for good and was {done}{since}: {error}",
            severity=Severity.WARNING,
            subject=f"queue:{queue}",
        )
