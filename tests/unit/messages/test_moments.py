"""A date, a time and a time zone make one moment."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from postroom.domain.errors import Invalid
from postroom.domain.units import is_skipped
from postroom.web.admin.messages.drafting.message_drafts import parse_local_time, zones


@pytest.mark.parametrize(
    ("day", "clock", "zone", "expected"),
    [
        ("2026-11-15", "09:00", "UTC", datetime(2026, 11, 15, 9, tzinfo=UTC)),
        ("2026-11-15", "09:00", "Europe/Paris", datetime(2026, 11, 15, 8, tzinfo=UTC)),
        ("2026-07-15", " 09:00:30 ", "Europe/Paris", datetime(2026, 7, 15, 7, 0, 30, tzinfo=UTC)),
        ("2026-11-15", "09:00", "Asia/Kathmandu", datetime(2026, 11, 15, 3, 15, tzinfo=UTC)),
        # Clocks are put back: the first of the two hours.
        ("2026-10-25", "02:30", "Europe/Paris", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
    ],
)
def test_a_local_time_is_one_moment(day: str, clock: str, zone: str, expected: datetime) -> None:
    assert parse_local_time(day, clock, zone) == expected


@pytest.mark.parametrize(
    ("day", "clock", "zone", "problem"),
    [
        ("2026-03-29", "02:30", "Europe/Paris", "moved forward"),
        ("", "09:00", "UTC", "needs a date and a time"),
        ("2026-11-15", "", "UTC", "needs a date and a time"),
        ("2026-11-15", "09:00+01:00", "UTC", "needs a date and a time"),
        ("2026-13-45", "09:00", "UTC", "needs a date and a time"),
        ("2026-11-15", "09:00", "Mars/Olympus", "choose a time zone"),
        ("2026-11-15", "09:00", "../../etc/passwd", "choose a time zone"),
        ("0001-01-01", "00:00", "Asia/Tokyo", "out of range"),
        ("9999-12-31", "23:00", "America/New_York", "out of range"),
    ],
)
def test_an_invalid_time_is_refused_in_one_line(
    day: str, clock: str, zone: str, problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        parse_local_time(day, clock, zone)


def test_time_zones_can_be_chosen() -> None:
    assert zones()[0] == "UTC"
    assert {"Europe/Paris", "America/New_York", "Asia/Seoul"} < set(zones())


@pytest.mark.parametrize(
    ("local", "skipped"),
    [
        (datetime(2026, 3, 29, 1, 59, 59), False),
        (datetime(2026, 3, 29, 2, 0), True),
        (datetime(2026, 3, 29, 2, 59, 59), True),
        (datetime(2026, 3, 29, 3, 0), False),
        (datetime(2026, 10, 25, 2, 30), False),
        (datetime(2026, 10, 25, 2, 30, fold=1), False),
    ],
)
def test_clocks_skip_an_hour_in_spring(local: datetime, skipped: bool) -> None:
    assert is_skipped(local, ZoneInfo("Europe/Paris")) is skipped
    assert not is_skipped(local, UTC)
