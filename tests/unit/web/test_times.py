from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from postroom.web.rendering.times import ago, exact, is_near, upcoming

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(7300, "in 2 h"), (90, "in 1 min"), (1, "in 1 s"), (0.5, "now"), (0, "now"), (-30, "now")],
)
def test_an_attempt_that_is_due_happens_now(seconds: float, shown: str) -> None:
    assert upcoming(NOW + timedelta(seconds=seconds), NOW) == shown


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(), "just now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=5, seconds=59), "5 min ago"),
        (timedelta(hours=47), "1 day ago"),
        (timedelta(days=-2, hours=-1), "in 2 days"),
        (timedelta(days=29, hours=23), "29 days ago"),
        (timedelta(days=30), "17 Oct 2026"),
        (timedelta(days=-400), "21 Dec 2027"),
    ],
)
def test_near_moments_are_relative_and_others_dates(passed: timedelta, shown: str) -> None:
    assert ago(NOW - passed, NOW) == shown
    assert is_near(NOW - passed, NOW) is (not shown[0].isdigit() or "ago" in shown)


def test_the_exact_time_is_in_utc_for_browsers_without_scripts() -> None:
    tokyo = datetime(2026, 11, 10, 6, 4, tzinfo=timezone(timedelta(hours=9)))
    assert exact(tokyo) == "9 Nov 2026, 21:04 UTC"
