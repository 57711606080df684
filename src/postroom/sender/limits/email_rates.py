"""Emails per second: the arithmetic, without a clock or a store.

The algorithm is that of `domain/rate_limits.py`, with a burst of one second: in any `t` seconds no
more than `rate · (t + 1)` emails are sent.

A limit by recipient domain keeps a second moment, `queue_end`. Emails that may not be sent now get
a time to come back; later ones get a later time. This only spreads them: `used_up` alone decides
whether they may be sent then. So nothing is lost if they never come (their message was cancelled),
and nothing is exceeded if all come at once (all senders were down).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

_BURST_SECONDS = 1.0
_ROUNDING = 1e-6  # seconds: the precision of moments in the store
# A limit that is used up further ahead than all senders together reserve was written by a wrong
# clock, or the clock has been set back since.
_CREDIBLE_SECONDS = 600.0
_CREDIBLE_EMAILS = 4_000
# Emails that come back together: half of a burst, so that some may be a little late or early.
_GROUP_SECONDS = 0.5
# The longest wait: limits are raised, messages cancelled, senders added.
_LONGEST_WAIT = 900.0
# If no email came for this long although some were due, none will come.
_ABANDONED_SECONDS = 5.0


class EmailRate(msgspec.Struct, frozen=True):
    """A limit in emails per second; `burst_seconds` of it may be sent at once after a pause."""

    per_second: float
    burst_seconds: float = _BURST_SECONDS

    @property
    def interval(self) -> float:
        return 1.0 / self.per_second

    @property
    def burst(self) -> int:
        """How many may be sent at once after a pause."""
        return max(1, math.floor(self.per_second * self.burst_seconds))


class DomainRates(msgspec.Struct, frozen=True):
    """Limits by recipient domain; `others` is the limit of each unnamed domain."""

    named: Mapping[str, EmailRate]
    others: EmailRate | None = None

    def of(self, domain: str) -> EmailRate | None:
        return self.named.get(domain, self.others)


class Reservation(msgspec.Struct, frozen=True):
    """`at` is when all of the emails may be sent."""

    at: float
    used_up: float


class RateAdmission(msgspec.Struct, frozen=True):
    """`count` emails may be sent at `at`; `later` has how many of the others come back, and
    when."""

    count: int
    at: float
    used_up: float
    queue_end: float
    later: tuple[tuple[int, float], ...] = ()


def reserve(rate: EmailRate, used_up: float, count: int, now: float) -> Reservation:
    """Reserve slots for `count` emails, however far ahead."""
    start = _start(rate, used_up, now)
    last = start + (count - 1) * rate.interval
    return Reservation(max(now, last - _tolerance(rate)), start + count * rate.interval)


def available(rate: EmailRate, used_up: float, now: float, deadline: float) -> int:
    """Return how many emails may be sent until `deadline`."""
    room = deadline + _tolerance(rate) - _start(rate, used_up, now) + _ROUNDING
    return 0 if room < 0 else math.floor(room / rate.interval) + 1


def admit(
    rate: EmailRate, used_up: float, queue_end: float, count: int, now: float, deadline: float
) -> RateAdmission:
    """Reserve slots for emails that may be sent until `deadline`, and times for the others."""
    going = min(count, available(rate, used_up, now, deadline))
    reserved = reserve(rate, used_up, going, now) if going else Reservation(now, used_up)
    if going == count:
        return RateAdmission(going, reserved.at, reserved.used_up, queue_end)
    first = max(now, _start(rate, reserved.used_up, now))
    is_abandoned = used_up < now - _ABANDONED_SECONDS
    place = first if is_abandoned else max(first, queue_end)
    later: list[tuple[int, float]] = []
    waiting = count - going
    while waiting:
        if place > now + _LONGEST_WAIT:
            place = first  # too many are waiting: first come, first served
        group = min(waiting, max(1, math.floor(rate.per_second * _GROUP_SECONDS)))
        later.append((group, place))
        place += group * rate.interval
        waiting -= group
    return RateAdmission(going, reserved.at, reserved.used_up, place, tuple(later))


def _tolerance(rate: EmailRate) -> float:
    return (rate.burst - 1) * rate.interval


def _start(rate: EmailRate, used_up: float, now: float) -> float:
    credible = now + _CREDIBLE_SECONDS + _CREDIBLE_EMAILS * rate.interval
    return now if used_up > credible else max(used_up, now)
