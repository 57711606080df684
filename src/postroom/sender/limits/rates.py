"""Emails per second: the arithmetic, without a clock or a store.

Virtual scheduling (GCRA, ITU-T I.371): all that has to be kept of a limit is one moment, `used_up`.
Each email moves it on by one interval, from now if it has passed. An email may go as long as that
moment is no further ahead than a second's worth of emails: so much may go at once after a rest, and
in any `t` seconds no more than `rate · (t + 1)`.

A limit by recipient domain keeps a second moment, `queue_end`. Emails that cannot go now are told
when to come back; those who come later are told a later moment. It only spreads them: what they get
when they come back is decided by `used_up` alone. So nothing is lost if they never come (their
message was cancelled) and nothing is exceeded if all come at once (all senders were down).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

_BURST_SECONDS = 1.0
_ROUNDING = 1e-6  # seconds: what the store keeps of a moment
# A limit that is used up for longer than all senders together reserve ahead was written by a clock
# that was wrong, or has been set back since.
_CREDIBLE_SECONDS = 600.0
_CREDIBLE_EMAILS = 4_000
# Emails that come back together: half of a burst, so that some may come a little late or early.
_GROUP_SECONDS = 0.5
# Nobody is sent away for longer: limits are raised, messages cancelled, senders added.
_LONGEST_ABSENCE = 900.0
# Nobody came for so long although some were told to: they will not come.
_DESERTED_SECONDS = 5.0


class Rate(msgspec.Struct, frozen=True):
    """A limit in emails per second."""

    per_second: float

    @property
    def interval(self) -> float:
        return 1.0 / self.per_second

    @property
    def burst(self) -> int:
        """How many may go at once after a rest."""
        return max(1, math.floor(self.per_second * _BURST_SECONDS))


class DomainRates(msgspec.Struct, frozen=True):
    """The limits by recipient domain; `others` is for each domain that is not named."""

    named: Mapping[str, Rate]
    others: Rate | None = None

    def of(self, domain: str) -> Rate | None:
        return self.named.get(domain, self.others)


class Reservation(msgspec.Struct, frozen=True):
    """`at` is when all of the emails may go."""

    at: float
    used_up: float


class Admission(msgspec.Struct, frozen=True):
    """So many may go at `at`; the others come back: `later` has how many, and when."""

    count: int
    at: float
    used_up: float
    queue_end: float
    later: tuple[tuple[int, float], ...] = ()


def reserve(rate: Rate, used_up: float, count: int, now: float) -> Reservation:
    """Slots for `count` emails, however far ahead."""
    start = _start(rate, used_up, now)
    last = start + (count - 1) * rate.interval
    return Reservation(max(now, last - _tolerance(rate)), start + count * rate.interval)


def available(rate: Rate, used_up: float, now: float, deadline: float) -> int:
    """How many emails may go until `deadline`."""
    room = deadline + _tolerance(rate) - _start(rate, used_up, now) + _ROUNDING
    return 0 if room < 0 else math.floor(room / rate.interval) + 1


def admit(
    rate: Rate, used_up: float, queue_end: float, count: int, now: float, deadline: float
) -> Admission:
    """Slots for those that may go until `deadline`, and a time to come back for the others."""
    going = min(count, available(rate, used_up, now, deadline))
    reserved = reserve(rate, used_up, going, now) if going else Reservation(now, used_up)
    if going == count:
        return Admission(going, reserved.at, reserved.used_up, queue_end)
    first = max(now, _start(rate, reserved.used_up, now))
    is_deserted = used_up < now - _DESERTED_SECONDS
    place = first if is_deserted else max(first, queue_end)
    later: list[tuple[int, float]] = []
    waiting = count - going
    while waiting:
        if place > now + _LONGEST_ABSENCE:
            place = first  # those before us are many; whoever comes first is served first
        group = min(waiting, max(1, math.floor(rate.per_second * _GROUP_SECONDS)))
        later.append((group, place))
        place += group * rate.interval
        waiting -= group
    return Admission(going, reserved.at, reserved.used_up, place, tuple(later))


def _tolerance(rate: Rate) -> float:
    return (rate.burst - 1) * rate.interval


def _start(rate: Rate, used_up: float, now: float) -> float:
    credible = now + _CREDIBLE_SECONDS + _CREDIBLE_EMAILS * rate.interval
    return now if used_up > credible else max(used_up, now)
