"""When the clocks of another zone show the time that they show here."""

from datetime import UTC, datetime

import pytest

from postroom.domain.audience.time_zones import earliest_moment, local_moment, parse_zone
from postroom.domain.errors import Invalid


@pytest.mark.parametrize(
    ("moment", "zone", "there", "expected"),
    [
        ("2026-01-15T08:00", "Europe/Berlin", "Asia/Tokyo", "2026-01-15T00:00"),
        ("2026-01-15T08:00", "Europe/Berlin", "America/New_York", "2026-01-15T14:00"),
        ("2026-07-15T07:00", "Europe/Berlin", "UTC", "2026-07-15T09:00"),
        ("2026-01-15T08:00", "Europe/Berlin", "", "2026-01-15T08:00"),
        ("2026-01-15T08:00", "Europe/Berlin", "Mars/Base", "2026-01-15T08:00"),
        ("2026-01-15T08:00", "Asia/Tokyo", "Pacific/Honolulu", "2026-01-16T03:00"),
        # 2:30 is skipped in Berlin on that day: it comes when clocks show 3:30.
        ("2026-03-29T02:30", "UTC", "Europe/Berlin", "2026-03-29T01:30"),
        # 2:30 comes twice: the first one counts.
        ("2026-10-25T02:30", "UTC", "Europe/Berlin", "2026-10-25T00:30"),
    ],
)
def test_a_moment_is_that_of_the_same_clock_there(
    moment: str, zone: str, there: str, expected: str
) -> None:
    found = local_moment(datetime.fromisoformat(moment).replace(tzinfo=UTC), zone, there)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_no_zone_is_earlier_than_the_earliest() -> None:
    moment = datetime(2026, 1, 15, 8, 0, tzinfo=UTC)
    earliest = earliest_moment(moment, "Europe/Berlin")
    assert earliest == local_moment(moment, "Europe/Berlin", "Pacific/Kiritimati")
    assert earliest == datetime(2026, 1, 14, 19, 0, tzinfo=UTC)


def test_zones_have_names_of_the_iana_database() -> None:
    assert parse_zone(" Europe/Berlin ") == "Europe/Berlin"
    assert parse_zone("") == "UTC"
    for wrong in ("CEST", "Europe/Nowhere", "../../etc/passwd", "x" * 65):
        with pytest.raises(Invalid, match="time_zone"):
            parse_zone(wrong)
