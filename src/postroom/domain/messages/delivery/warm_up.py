"""Warm-up plans: how many emails may be sent per day while a domain or an IP address is new.

Providers distrust a sender that they have never seen and that sends a lot at once. A plan has a
volume for each of its days, which are days in UTC; after the last one there is no limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.providers import PROVIDER_PATTERN

ALL: Final = "all"
"""The name of the plan for all emails, whatever their From domain is: for a new IP address."""

VOLUMES: Final = (
    *(50, 100, 500, 1_000, 5_000, 10_000, 20_000, 40_000, 70_000, 100_000, 150_000, 250_000),
    *(400_000, 600_000, 1_000_000),
)
"""What several providers recommend for a new IP address."""
MOST_DAYS: Final = 120
MOST_EMAILS: Final = 1_000_000_000
_ONE_DAY: Final = timedelta(days=1)


class WarmUpPlan(msgspec.Struct, frozen=True):
    """The emails per day for a From domain, or for `all`, from the day `starts` on."""

    domain: str
    starts: date
    volumes: tuple[int, ...]

    def volume(self, day: date) -> int | None:
        """Return how many emails may be sent on a day; None: no limit."""
        number = (day - self.starts).days
        return self.volumes[number] if 0 <= number < len(self.volumes) else None

    def day_number(self, day: date) -> int:
        """Return which day of the plan it is, beginning with 1."""
        return (day - self.starts).days + 1

    @property
    def ends(self) -> date:
        """Return the first day without a limit."""
        days = min(len(self.volumes), (date.max - self.starts).days)
        return self.starts + timedelta(days=days)


def last_day(plans: Sequence[WarmUpPlan], left_today: int, emails: int, today: date) -> date:
    """Return the day on which the last of these `emails` is sent."""
    day, left = today, left_today
    while emails > left:
        emails -= left
        day += _ONE_DAY
        volumes = [volume for each in plans if (volume := each.volume(day)) is not None]
        left = min(volumes, default=emails)
    return day


def parse_warm_up_domain(text: str) -> str:
    """Return the domain of a plan, or `all`. `Invalid`."""
    domain = text.strip().lower()
    if domain != ALL and not re.fullmatch(PROVIDER_PATTERN, domain):
        raise Invalid("domain", f"must be a domain such as example.com, or all, not {text[:100]!r}")
    return domain


def check_volumes(volumes: Sequence[int]) -> tuple[int, ...]:
    """Return the volumes of a plan. `Invalid`."""
    if not 1 <= len(volumes) <= MOST_DAYS:
        raise Invalid("volumes", f"must have between 1 and {MOST_DAYS} days, not {len(volumes)}")
    for each in volumes:
        if not 1 <= each <= MOST_EMAILS:
            raise Invalid("volumes", f"must be between 1 and {MOST_EMAILS:,} per day, not {each}")
    return tuple(volumes)


def parse_volumes(text: str) -> tuple[int, ...]:
    """Return the volumes in a text such as `50, 100, 500`. `Invalid`."""
    parts = [each for each in re.split(r"[\s,;]+", text.strip()) if each]
    for each in parts:
        if not re.fullmatch(r"[0-9]{1,12}", each):
            problem = f"must be whole numbers separated by commas, not {each[:20]!r}"
            raise Invalid("volumes", problem)
    return check_volumes([int(each) for each in parts])
