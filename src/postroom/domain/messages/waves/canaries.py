"""Canaries: a small part of the recipients gets a message first; the others follow if all is well.

An author chooses with a text: `off`, a share such as `1%`, or a number of recipients such as `500`,
each with the time that the others wait if it differs from the default: `1%,10m`. Without a choice,
the settings decide.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.waves.buckets import BUCKETS, BucketRange
from postroom.domain.units import parse_duration, show_duration

OFF: Final = "off"
LONGEST_WAIT: Final = timedelta(days=1)
_LARGEST_SHARE: Final = 50.0  # percent
_LARGEST_COUNT: Final = 1_000_000
_NUMBER: Final = re.compile(r"([0-9]{1,7})(\.[0-9]{1,2})?(\s*%)?", re.ASCII)
_FORM: Final = (
    "must be off, or a share such as 1% (0.01% to 50%) or a number such as 500, optionally with how"
    " long the others wait, as in 1%,10m"
)


class Canary(msgspec.Struct, frozen=True):
    """Who gets the message first: `share` percent, or about `count` recipients if it is set; and
    how many seconds the others wait after that."""

    share: float = 1.0
    count: int = 0
    wait: float = 600.0

    def __str__(self) -> str:
        return f"About {self.count:,} recipients" if self.count else f"{self.share:g}% of them"

    def buckets(self, recipients: int) -> BucketRange:
        """Return the buckets of the first wave; `recipients` matters only for a count."""
        part = self.count / max(recipients, 1) if self.count else self.share / 100
        return BucketRange(0, min(BUCKETS, math.ceil(part * BUCKETS - 1e-9)))


class CanaryRules(msgspec.Struct, frozen=True):
    """What the settings say.

    Messages to more than `above` recipients get a canary of `share` percent; None: only those whose
    authors choose one. The others do not get the message if more than these percentages of the
    first wave were refused, were rejected because of our reputation or the content, or were marked
    as spam; None: whatever they are.
    """

    above: int | None = None
    share: float = 1.0
    wait: timedelta = timedelta(minutes=10)
    refusals: float | None = 5.0
    rejections: float | None = 1.0
    complaints: float | None = 0.3

    @property
    def canary(self) -> Canary:
        return Canary(self.share, wait=self.wait.total_seconds())


ONLY_CHOSEN: Final = CanaryRules()


def parse_canary(text: str | None) -> str:
    """Return a choice in its shortest form; empty leaves it to the settings. `Invalid`."""
    wanted = (text or "").strip().lower()
    if wanted in ("", OFF):
        return wanted
    size, comma, wait = (each.strip() for each in wanted.partition(","))
    found = _NUMBER.fullmatch(size)
    if found is None or (comma and not wait) or (found[2] and not found[3]):
        raise _invalid(text)
    number = float(size.rstrip("% "))
    largest = _LARGEST_SHARE if found[3] else _LARGEST_COUNT
    if not (0.01 if found[3] else 1) <= number <= largest:
        raise _invalid(text)
    chosen = f"{number:g}%" if found[3] else f"{number:.0f}"
    return f"{chosen},{show_duration(_wait(wait, text))}" if comma else chosen


def check_waves(canary: str, *, local_time: bool) -> None:
    """Raise `Invalid` if a message has a canary and is sent by local time."""
    if local_time and canary not in ("", OFF):
        raise Invalid("canary", "cannot be combined with local_time: choose one of them")


def _wait(wait: str, text: str | None) -> timedelta:
    try:
        length = parse_duration(wait)
    except ValueError as exc:
        raise _invalid(text) from exc
    if length > LONGEST_WAIT:
        raise Invalid("canary", f"must wait for at most a day, not {wait[:20]}")
    return length


def _invalid(text: str | None) -> Invalid:
    return Invalid("canary", f"{_FORM}, not {(text or '')[:60]!r}")


def canary_for(choice: str, recipients: int, rules: CanaryRules) -> Canary | None:
    """Return the canary of a message to this many recipients; None if they all get it together."""
    found = chosen_canary(choice, rules)
    if found is None and choice != OFF and rules.above is not None and recipients > rules.above:
        found = rules.canary
    if found is None or found.buckets(recipients).end >= BUCKETS:
        return None
    return found


def chosen_canary(choice: str, rules: CanaryRules) -> Canary | None:
    """Return the canary of a choice that was stored; None if there is none, or if it is left to the
    settings."""
    if choice in ("", OFF):
        return None
    size, _, wait = choice.partition(",")
    seconds = (parse_duration(wait) if wait else rules.wait).total_seconds()
    if size.endswith("%"):
        return Canary(float(size[:-1]), wait=seconds)
    return Canary(count=int(size), wait=seconds)
