"""How many processes an application needs, and what is due by time. Pure functions."""

from __future__ import annotations

import math

import msgspec

CLEAR_WITHIN = 1.0
"""Seconds within which ready messages should be handled: quick handlers need one process."""

SHORT_ENOUGH = 0.02
"""Handling time, in seconds, up to which messages are prefetched."""

LONGEST_LINE = 0.05
"""Seconds that prefetched messages may wait in a process."""

MOST_ON_THE_WAY = 63

PAGES_EACH = 64
"""Ready messages that one process which receives messages itself can handle."""


class Demand(msgspec.Struct, frozen=True):
    """The work of an application. Times in seconds.

    `ready` messages wait in its queues, the oldest for `oldest`; `in_hand` are in processes.
    `each` is the handling time of a message; None before the first is finished.
    """

    ready: int = 0
    oldest: float = 0.0
    in_hand: int = 0
    each: float | None = None


def wanted(demand: Demand, *, running: int, concurrency: int, least: int, most: int) -> int:
    """Return the number of processes, between `least` and `most`.

    Never fewer than now while there are messages: idle processes are stopped by their timeout.
    """
    total = demand.ready + demand.in_hand
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
    behind = demand.oldest > CLEAR_WITHIN and demand.ready > PAGES_EACH * running
    return min(most, max(least, 1, running + behind))


def on_the_way(each: float | None) -> int:
    """Return how many messages may wait in a process besides those in progress.

    0 for slow handlers: their messages wait in the queue for the first free process.
    """
    if each is None or each > SHORT_ENOUGH:
        return 0
    return min(MOST_ON_THE_WAY, int(LONGEST_LINE / max(each, 1e-6)))


class Pace:
    """The average handling time of a message; recent ones count most."""

    _WEIGHT = 0.2

    def __init__(self) -> None:
        self.each: float | None = None

    def finished(self, seconds: float) -> None:
        if self.each is None or seconds > 4 * self.each:
            self.each = seconds  # a slow message counts at once: others would wait behind it
        else:
            self.each += (seconds - self.each) * self._WEIGHT
