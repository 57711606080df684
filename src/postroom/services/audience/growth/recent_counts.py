"""Counts of audiences, remembered for some seconds: to count a part of a list, all of it is read,
and the editor asks after each save."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from postroom import clock

REMEMBERED_SECONDS: Final = 30.0
SMALL: Final = 5_000
"""Up to this many subscribers, a list is counted again each time."""

_MOST_REMEMBERED: Final = 1_000


class AudienceCount(msgspec.Struct, frozen=True):
    """How many subscribers of a list get a message, and how many do not, by reason."""

    will_receive: int = 0
    excluded: Mapping[str, int] = {}

    @property
    def subscribers(self) -> int:
        return self.will_receive + sum(self.excluded.values())


class RecentCounts:
    def __init__(self) -> None:
        self._known: dict[bytes, tuple[float, AudienceCount]] = {}
        self._counting: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def get(
        self, key: bytes, count: Callable[[], Awaitable[AudienceCount]], *, is_slow: bool
    ) -> AudienceCount:
        """Return a recent count, or count now; requests for the same one wait for each other.
        The count of a small list is not remembered, unless it `is_slow` for another reason."""
        lock = self._counting.setdefault(key, asyncio.Lock())
        async with lock:
            known = self._known.get(key)
            if known is not None and clock.monotonic() - known[0] < REMEMBERED_SECONDS:
                return known[1]
            counted = await count()
            self._known.pop(key, None)
            if is_slow or counted.subscribers > SMALL:
                while len(self._known) >= _MOST_REMEMBERED:
                    del self._known[next(iter(self._known))]
                self._known[key] = (clock.monotonic(), counted)
            return counted
