"""How often one key may call: a bucket of calls that fills steadily."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

WINDOW_SECONDS = 60
"""A bucket holds the calls of a minute: who was quiet may be quick for a while."""


class Bucket:
    """The calls that one key has left."""

    __slots__ = ("_at", "_capacity", "_clock", "_left", "_rate")

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._capacity = rate * WINDOW_SECONDS
        self._left = self._capacity
        self._clock = clock
        self._at = clock()

    def take(self) -> bool:
        """Take one call; False if none is left."""
        now = self._clock()
        self._left = min(self._capacity, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    @property
    def seconds_until_next(self) -> int:
        return max(1, math.ceil((1.0 - self._left) / self._rate))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Limit, what is left of it, and in how many seconds all of it is there again."""
        reset = math.ceil((self._capacity - self._left) / self._rate)
        return [
            (b"ratelimit-limit", b"%d" % self._capacity),
            (b"ratelimit-remaining", b"%d" % self._left),
            (b"ratelimit-reset", b"%d" % reset),
        ]
