"""Rates that follow what a provider accepts: (rate, what happened, now) → rate.

Halving a rate and raising it slowly (AIMD) finds a limit that nobody publishes, but spends most of
its time far below it. So the rate returns quickly to just below where it was throttled, half of the
way per clean minute, and grows slowly only beyond that point.

    minute    0     1     2     3     4     5 …10   …15
    rate     40 ▶ 20    28    32    34  35.7  36  37.8 …   throttled at 40, the goal is 36

Times are seconds since 1970, because all senders share a rate.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

FLOOR: Final = 1 / 60
"""One email per minute, however often a provider throttles."""
FIRST_RATE: Final = 10.0
"""Emails per second after the first throttling, if too little was accepted before to tell."""
CLEAN_SECONDS: Final = 60.0

_GOAL_SHARE: Final = 0.9
_GROWTH: Final = 1.05
_CAREFUL_MINUTES: Final = 5
"""Clean minutes per step beyond the goal, for an hour after throttling; then one is enough."""
_CAREFUL_MINUTES_FOR: Final = 60
_SAME_EVENT_SECONDS: Final = 3.0
"""Emails that were in progress when the rate was halved are throttled, too: the same event."""
_FORGOTTEN_SECONDS: Final = 30 * 86_400.0
_OUTGROWN: Final = 10
"""A rate that is this many times its goal no longer limits anything."""
_OUTGROWN_PER_SECOND: Final = 100.0
"""A slower rate is never forgotten this way: a slow provider would have to throttle us every
day."""


class AdaptiveRate(msgspec.Struct, frozen=True):
    """What a provider accepts as far as we know. `goal` is the rate to return to quickly."""

    per_second: float
    goal: float
    changed_at: float
    throttled_at: float

    @property
    def most(self) -> float:
        """The rate from which on what was learned no longer matters."""
        return max(_OUTGROWN * self.goal, _OUTGROWN_PER_SECOND)

    def is_forgotten(self, now: float) -> bool:
        """Return whether the last throttling no longer matters: it was too long ago, or the
        provider has accepted far more since."""
        return now - self.throttled_at > _FORGOTTEN_SECONDS or self.per_second >= self.most


def throttled(
    rate: AdaptiveRate | None, measured: float, now: float, ceiling: float = math.inf
) -> AdaptiveRate:
    """Return the rate after a provider has throttled us. `measured` is how many emails per second
    it accepted just before, which counts if there was no rate yet. If that is 0, it still
    rejects everything: this says nothing about the rate to return to."""
    goal = 0.0
    if rate is None or rate.is_forgotten(now):
        before = max(measured, 2 * FIRST_RATE)
    elif now - rate.throttled_at < _SAME_EVENT_SECONDS:
        return rate
    else:
        before = rate.per_second
        if not measured and rate.changed_at <= rate.throttled_at:
            goal = rate.goal
    before = min(before, ceiling)
    goal = max(goal, before * _GOAL_SHARE, FLOOR)
    return AdaptiveRate(max(FLOOR, before / 2), goal, now, now)


def cleaned(
    rate: AdaptiveRate, now: float, ceiling: float = math.inf, minute: float = CLEAN_SECONDS
) -> AdaptiveRate:
    """Return the rate after emails were accepted and none was throttled: higher, if this has been
    so for long enough. A test may shorten the `minute`."""
    clean = now - rate.changed_at
    goal = min(rate.goal, ceiling)
    if clean < minute:
        return rate
    if rate.per_second < goal:
        step = max((goal - rate.per_second) / 2, rate.per_second * (_GROWTH - 1))
        higher = min(goal, rate.per_second + step)
    elif clean < _minutes_beyond_goal(rate, now, minute) * minute:
        return rate
    else:
        higher = min(ceiling, rate.most, rate.per_second * _GROWTH)
    if higher <= rate.per_second:
        return rate
    return msgspec.structs.replace(rate, per_second=higher, changed_at=now)


def _minutes_beyond_goal(rate: AdaptiveRate, now: float, minute: float) -> int:
    is_careful = now - rate.throttled_at < _CAREFUL_MINUTES_FOR * minute
    return _CAREFUL_MINUTES if is_careful else 1
