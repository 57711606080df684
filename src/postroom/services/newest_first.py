"""Row keys that sort backwards in time: the newest rows of a partition are the first ones."""

from __future__ import annotations

import secrets
from datetime import UTC, date, datetime, time, timedelta

from postroom.storage import KeyRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND  # has 18 digits


def new_row(moment: datetime) -> str:
    """Return a key for this moment; two keys of the same moment still differ."""
    return f"{_counted_down(moment)},{secrets.token_hex(4)}"


def moment_of(row: str) -> datetime:
    return _EPOCH + (_LAST - int(row[:18])) * _MICROSECOND


def rows_of_day(day: date) -> KeyRange:
    """Return the range of a day, in UTC."""
    start = datetime.combine(day, time(), UTC)
    end = datetime.combine(day, time.max, UTC)
    # Keys run backwards, and a key with its random end sorts behind the bare moment.
    return KeyRange(_counted_down(end), _counted_down(start, earlier=1))


def rows_before(moment: datetime) -> KeyRange:
    """Return the range of what is older than this moment."""
    return KeyRange(start=_counted_down(moment, earlier=1))


def rows_after(row: str) -> KeyRange:
    """Return the range of what is newer than this row."""
    return KeyRange(stop=row)


def _counted_down(moment: datetime, *, earlier: int = 0) -> str:
    """Return the moment as digits that sort backwards; `earlier` is in microseconds."""
    micros = (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND - earlier
    return f"{_LAST - max(micros, 0):018d}"
