"""How often somebody may try to log in: the rule, without the store.

Attempts are slowed down, never locked out: otherwise a stranger who enters wrong passwords could
keep a user from logging in. After some attempts at once, one is allowed per interval.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom.domain.errors import NotNow


class Pace(msgspec.Struct, frozen=True):
    """`burst` attempts at once, then one every `seconds`.

    All that has to be kept is one moment, the mark: when the attempts so far would have been made
    at that pace (the generic cell rate algorithm). A mark that has passed means nothing.
    """

    burst: int
    seconds: float

    def wait(self, mark: float, now: float) -> float:
        """Return in how many seconds the next attempt is allowed; 0 for now."""
        return max(0.0, mark - (self.burst - 1) * self.seconds - now)

    def after(self, mark: float, now: float) -> float:
        """Return the mark after one more attempt."""
        return max(mark, now) + self.seconds

    def next_mark(self, mark: datetime | None, now: datetime) -> datetime | None:
        """Return the mark after one more attempt; None if it is too early for one."""
        before = 0.0 if mark is None else mark.timestamp()
        if self.wait(before, now.timestamp()):
            return None
        return datetime.fromtimestamp(self.after(before, now.timestamp()), UTC)


STRANGERS: Final = Pace(25, 50)
"""Passwords for one user from all devices together that this user has never logged in with."""

CODES: Final = Pace(10, 600)
"""Codes of one user's second factor. Only somebody who knows the password gets here, so this can be
strict: a thief who guesses has a chance of less than one in two thousand per day."""


class TooManyCodes(NotNow):
    """Too many wrong codes of a second factor: the next one is looked at within `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"too many wrong codes: wait {math.ceil(seconds / 60)} min")
