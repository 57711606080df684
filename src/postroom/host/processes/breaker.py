"""The breaker: an application whose processes crash again and again is left alone for a while.

    closed ──five crashes in five minutes──▶ open ──pause──▶ probing ──a message handled──▶ closed
                                              ▲                 │
                                              └──── a crash ────┘

Open: no process is started; messages stay where they are. Probing: one process, one message.
Time is given to every call, so that nothing here has a clock of its own.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

CRASHES = 5
WITHIN_SECONDS = 300.0


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """Of one application on one host."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._crashes: deque[float] = deque(maxlen=CRASHES)
        self._opened_at: float | None = None
        self._tripped = False
        self.reason = ""

    @property
    def is_tripped(self) -> bool:
        """Whether it is open or probing."""
        return self._tripped

    def state(self, now: float) -> BreakerState:
        if not self._tripped:
            return BreakerState.CLOSED
        if self._opened_at is not None and now < self._opened_at + self._pause:
            return BreakerState.OPEN
        return BreakerState.PROBING

    def opens_for(self, now: float) -> float:
        """Seconds until a probe is allowed; 0 if the breaker is not open."""
        if self.state(now) is not BreakerState.OPEN or self._opened_at is None:
            return 0.0
        return self._opened_at + self._pause - now

    def crashed(self, now: float, reason: str) -> None:
        """A process ended that nobody had asked to."""
        self.reason = reason
        self._crashes.append(now)
        storm = len(self._crashes) == CRASHES and now - self._crashes[0] <= WITHIN_SECONDS
        if self._tripped or storm:
            self._tripped = True
            self._opened_at = now

    def worked(self, now: float) -> None:
        """A message was handled, well or badly, by a process that lives: so has the probe."""
        if self.state(now) is BreakerState.PROBING:
            self._tripped = False
            self._opened_at = None
            self._crashes.clear()
            self.reason = ""
