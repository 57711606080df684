"""Limits on login attempts that are kept in the user's row, so that they survive a restart.

Attempts are slowed down, never locked out: otherwise a stranger who enters wrong passwords could
keep a user from logging in.
"""

from __future__ import annotations

import math
from typing import Final

from postroom.domain.errors import NotNow
from postroom.domain.rate_limits import RateLimit

STRANGERS: Final = RateLimit(25, 50)
"""Passwords for one user from all unknown devices together."""

CODES: Final = RateLimit(10, 600)
"""Codes of one user's second factor. They need the password first, so this can be strict: guessing
succeeds with a chance of less than one in two thousand per day."""


class TooManyCodes(NotNow):
    """Too many wrong codes of a second factor: the next one is accepted within `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"too many wrong codes: wait {math.ceil(seconds / 60)} min")
