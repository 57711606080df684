"""The time, as processes and use cases read it: the simulation of the tests replaces it.

Engines of the store have their own clocks, because leases and delays follow the store's time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

# It continues while the machine sleeps, as leases do.
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def since_boot(self) -> float: ...


class _SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def since_boot(self) -> float:
        return time.clock_gettime(_SINCE_BOOT)


_clock: Clock = _SystemClock()


def now() -> datetime:
    """Return the current time in UTC, which may be set forward or back at any moment."""
    return _clock.now()


def timestamp() -> float:
    """Return the current time in seconds since 1970."""
    return _clock.now().timestamp()


def monotonic() -> float:
    """Return seconds that never go back, for durations."""
    return _clock.monotonic()


def since_boot() -> float:
    """Return seconds that never go back and also pass while the machine sleeps, for leases."""
    return _clock.since_boot()


@contextmanager
def replaced_by(clock: Clock) -> Iterator[None]:
    """Read the time from another clock, in this whole process."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before
