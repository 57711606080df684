"""The breaker pauses an application after repeated crashes.

    closed ──five crashes in five minutes──▶ open ──pause──▶ probing ──a message handled──▶ closed
                                              ▲                 │
                                              └──── a crash ────┘

Open: no process is started, and messages wait. Probing: one process, one message. The time is an
argument of every call.
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
    """The breaker of one application on one host."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._crashes: deque[float] = deque(maxlen=CRASHES)
        self._opened_at: float | None = None
        self._tripped = False
        self.reason = ""

    @property
    def is_tripped(self) -> bool:
        """Return whether it is open or probing."""
        return self._tripped

    def state(self, now: float) -> BreakerState:
        if not self._tripped:
            return BreakerState.CLOSED
        if self._opened_at is not None and now < self._opened_at + self._pause:
            return BreakerState.OPEN
        return BreakerState.PROBING

    def opens_for(self, now: float) -> float:
        """Return the seconds until a probe is allowed; 0 if the breaker is not open."""
        if self.state(now) is not BreakerState.OPEN or self._opened_at is None:
            return 0.0
        return self._opened_at + self._pause - now

    def crashed(self, now: float, reason: str) -> None:
        """Count a crash."""
        self.reason = reason
        self._crashes.append(now)
        storm = len(self._crashes) == CRASHES and now - self._crashes[0] <= WITHIN_SECONDS
        if self._tripped or storm:
            self._tripped = True
            self._opened_at = now

    def worked(self, now: float) -> None:
        """Close a probing breaker: a process has handled a message, accepted or not, and lives."""
        if self.state(now) is BreakerState.PROBING:
            self._tripped = False
            self._opened_at = None
            self._crashes.clear()
            self.reason = ""
