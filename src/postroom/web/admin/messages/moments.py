"""A date, a time and a time zone, as a form has them: one moment."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from postroom.domain.errors import Invalid
from postroom.domain.local_times import is_skipped

FIELD: Final = "scheduled_at"


@cache
def zones() -> tuple[str, ...]:
    """The names to choose from: UTC first, then by name."""
    names = {name for name in available_timezones() if "/" in name and not name.startswith("Etc/")}
    return ("UTC", *sorted(names))


def moment(day: str, clock: str, zone: str) -> datetime:
    """The moment in UTC. `Invalid` says what is missing, or that there is no such time."""
    if zone not in zones():
        raise Invalid(FIELD, "choose a time zone from the list")
    try:
        local = datetime.combine(date.fromisoformat(day.strip()), _clock(clock))
    except ValueError as exc:
        raise Invalid(FIELD, "needs a date and a time, as in 2026-11-15 and 09:00") from exc
    try:
        found = local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        is_there = not is_skipped(local, ZoneInfo(zone))
    except (OverflowError, ValueError) as exc:
        raise Invalid(FIELD, "is out of range") from exc
    if not is_there:
        raise Invalid(FIELD, f"this time does not exist in {zone}: clocks are moved forward then")
    return found


def _clock(text: str) -> time:
    parsed = time.fromisoformat(text.strip())
    if parsed.tzinfo is not None:
        raise ValueError("the zone has a field of its own")
    return parsed
