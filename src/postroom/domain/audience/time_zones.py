"""Time zones of lists and subscribers, and when a time of day comes there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from postroom.domain.audience.lists.list_property import ListProperty
from postroom.domain.errors import Invalid

ZONE_FIELD: Final = "time_zone"
"""The field of a list that has the time zones of its subscribers."""
DEFAULT_ZONE: Final = "UTC"
_LONGEST: Final = 64
_EARLIEST: Final = timezone(timedelta(hours=14))
"""The zone in which a time of day comes first."""


@lru_cache(maxsize=1000)
def zone_named(name: str) -> ZoneInfo | None:
    """Return a time zone by its IANA name, such as Europe/Berlin; None if there is no such one."""
    if name not in _names():
        return None
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def parse_zone(text: str) -> str:
    """Return the name of a time zone. `Invalid`."""
    name = text.strip() or DEFAULT_ZONE
    if zone_named(name) is None:
        raise Invalid(
            ZONE_FIELD, f"must be the name of a time zone such as Europe/Berlin, not {name[:60]!r}"
        )
    return name


def local_moment(moment: datetime, zone: str, there: str) -> datetime:
    """Return the moment, in UTC, at which clocks in another zone show the time that they show here
    at this one. An unknown zone counts as this one. A time that clocks skip there comes right after
    the change."""
    other = zone_named(there)
    return moment if other is None else _shown(moment, zone, other)


def earliest_moment(moment: datetime, zone: str) -> datetime:
    """Return when clocks in any zone first show the time that they show in this one at a moment."""
    return _shown(moment, zone, _EARLIEST)


def _shown(moment: datetime, zone: str, there: tzinfo) -> datetime:
    try:
        local = moment.astimezone(zone_named(zone) or UTC)
        return local.replace(tzinfo=there, fold=0).astimezone(UTC)
    except OverflowError:  # at the ends of time
        return moment


ZONE_PROPERTY: Final = ListProperty(
    name=ZONE_FIELD,
    stored_as="TimeZone",
    label="Time zone",
    help="For messages sent by local time: the zone of the scheduled time, and of subscribers whose"
    f" field {ZONE_FIELD} is empty.",
    check=parse_zone,
    default=DEFAULT_ZONE,
    longest=_LONGEST,
    example="Europe/Berlin",
)
