"""How many processes an application needs. Pure: what is known goes in, a number comes out."""

from __future__ import annotations

import math

import msgspec

CLEAR_WITHIN = 1.0
"""Seconds within which what is ready should be done: quick handlers need no second process."""

SHORT_ENOUGH = 0.02
"""Seconds a message may take for others to be on their way to the process meanwhile."""

LONGEST_LINE = 0.05
"""Seconds that messages on their way may wait in line there."""

MOST_ON_THE_WAY = 63

PAGES_EACH = 64
"""Ready messages that one process which receives by itself is expected to cope with."""


class Demand(msgspec.Struct, frozen=True):
    """What is known about an application's work. Times in seconds.

    `ready` messages wait in its queues, the oldest for `oldest`; `in_hand` are in processes.
    `each` is how long one message takes; None as long as none was finished.
    """

    ready: int = 0
    oldest: float = 0.0
    in_hand: int = 0
    each: float | None = None


def wanted(demand: Demand, *, running: int, concurrency: int, least: int, most: int) -> int:
    """How many processes there should be, between `least` and `most`.

    Never fewer than now while anything is ready or in hand: whoever has nothing in hand for long
    enough is stopped for being idle, by another rule.
    """
    total = demand.ready + demand.in_hand
    if total == 0:
        return least
    if demand.each is None:
        needed = math.ceil(total / concurrency)
    else:
        needed = math.ceil(total * demand.each / (concurrency * CLEAR_WITHIN))
        # Each message in hand is somebody's; and whatever the estimate says, they wait too long.
        if demand.ready and demand.oldest > 2 * CLEAR_WITHIN:
            needed = max(needed, running + 1)
        needed = min(needed, math.ceil(total / concurrency))
    return min(most, max(least, 1, needed, min(running, most)))


def wanted_serving(demand: Demand, *, running: int, least: int, most: int) -> int:
    """The same for processes that receive by themselves, whose messages in hand nobody counts."""
    if demand.ready == 0:
        return max(least, min(running, most))
    behind = demand.oldest > CLEAR_WITHIN and demand.ready > PAGES_EACH * running
    return min(most, max(least, 1, running + behind))


def on_the_way(each: float | None) -> int:
    """How many messages may wait in line at a process besides those that it works on.

    None for handlers that take their time: a message waits in the queue, where whoever is free
    first takes it.
    """
    if each is None or each > SHORT_ENOUGH:
        return 0
    return min(MOST_ON_THE_WAY, int(LONGEST_LINE / max(each, 1e-6)))


class Pace:
    """How long a message takes, as an average in which recent ones count most."""

    _WEIGHT = 0.2

    def __init__(self) -> None:
        self.each: float | None = None

    def finished(self, seconds: float) -> None:
        if self.each is None or seconds > 4 * self.each:
            self.each = seconds  # slower at once: it decides whether others wait behind it
        else:
            self.each += (seconds - self.each) * self._WEIGHT
