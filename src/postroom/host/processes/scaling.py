"""How many processes an application needs, what is due by time, and the breaker, which pauses an
application after repeated crashes. Nothing here reads a clock or starts a process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

import msgspec

from postroom.domain.queues.apps import App
from postroom.host.processes.process_states import Process, ProcessState

CLEAR_WITHIN = 1.0
"""Seconds within which ready messages should be handled: quick handlers need one process."""

SHORT_ENOUGH = 0.02
"""Handling time, in seconds, up to which messages are prefetched."""

LONGEST_WAIT = 0.05
"""Seconds that prefetched messages may wait in a process."""

MOST_PREFETCHED = 63

PAGES_PER_PROCESS = 64
"""Ready messages that one process which receives messages itself can handle."""


class Demand(msgspec.Struct, frozen=True):
    """The work of an application. Times in seconds.

    `ready` messages wait in its queues, the oldest for `oldest`; `in_progress` are in processes.
    `each` is the handling time of a message; None before the first is finished.
    """

    ready: int = 0
    oldest: float = 0.0
    in_progress: int = 0
    each: float | None = None


def wanted(demand: Demand, *, running: int, concurrency: int, least: int, most: int) -> int:
    """Return the number of processes, between `least` and `most`.

    Never fewer than now while there are messages: idle processes are stopped by their timeout.
    """
    total = demand.ready + demand.in_progress
    if total == 0:
        return least
    if demand.each is None:
        needed = math.ceil(total / concurrency)
    else:
        needed = math.ceil(total * demand.each / (concurrency * CLEAR_WITHIN))
        # Whatever the estimate says, the messages wait too long.
        if demand.ready and demand.oldest > 2 * CLEAR_WITHIN:
            needed = max(needed, running + 1)
        needed = min(needed, math.ceil(total / concurrency))
    return min(most, max(least, 1, needed, min(running, most)))


def wanted_serving(demand: Demand, *, running: int, least: int, most: int) -> int:
    """Return the number of processes that receive messages themselves, which are not counted."""
    if demand.ready == 0:
        return max(least, min(running, most))
    behind = demand.oldest > CLEAR_WITHIN and demand.ready > PAGES_PER_PROCESS * running
    return min(most, max(least, 1, running + behind))


def prefetch_limit(each: float | None) -> int:
    """Return how many messages may wait in a process in addition to those in progress.

    0 for slow handlers: their messages wait in the queue for the first free process.
    """
    if each is None or each > SHORT_ENOUGH:
        return 0
    return min(MOST_PREFETCHED, int(LONGEST_WAIT / max(each, 1e-6)))


class HandlingTime:
    """The average handling time of a message; recent ones count most."""

    _WEIGHT = 0.2

    def __init__(self) -> None:
        self.each: float | None = None

    def finished(self, seconds: float) -> None:
        if self.each is None or seconds > 4 * self.each:
            self.each = seconds  # a slow message counts immediately: others would wait behind it
        else:
            self.each += (seconds - self.each) * self._WEIGHT


START_SECONDS = 60.0
"""How long a handler's import may take."""


def idle_to_stop(
    alive: Sequence[Process], replacing: Collection[Process], app: App, now: float
) -> Iterator[Process]:
    """Yield idle processes to stop, the longest idle first: idle for too long, or too many.

    `replacing` are those that replace another one.
    """
    running = len(alive) - len(replacing)
    spare, above = running - app.min_processes, running - app.max_processes
    limit = app.idle_timeout.total_seconds()
    for process in sorted(alive, key=lambda each: each.idle_since):
        if process in replacing or not process.is_idle:
            continue
        if (spare > 0 and process.idle_for(now) >= limit) or above > 0:
            yield process
            spare -= 1
            above -= 1


def next_due(
    processes: Sequence[Process], alive: Sequence[Process], app: App, now: float
) -> float | None:
    """Return the seconds until a limit of a process passes; None if there is no limit."""
    times = [p.kill_at - now for p in processes if p.kill_at is not None]
    over_time = (process.over_time_in(now) for process in processes)
    times += [seconds for seconds in over_time if seconds is not None]
    times += [
        p.started_at + START_SECONDS - now for p in processes if p.state is ProcessState.STARTING
    ]
    if len(alive) > app.min_processes:
        idle = app.idle_timeout.total_seconds()
        times += [p.idle_since + idle - now for p in processes if p.is_idle]
    if app.recycle_after is not None and processes:
        age = app.recycle_after.total_seconds()
        times += [p.started_at + age - now for p in alive]
    return max(0.0, min(times)) if times else None


CRASHES = 5
WITHIN_SECONDS = 300.0


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """Pauses one application on one host after repeated crashes.

    closed ──five crashes in five minutes──▶ open ──pause──▶ probing ──a message handled──▶ closed
                                              ▲                 │
                                              └──── a crash ────┘

    Open: no process is started, and messages wait. Probing: one process, one message.
    """

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
