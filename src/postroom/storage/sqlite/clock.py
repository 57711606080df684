"""Time as the file keeps it: microseconds since 1970, of the machine that all processes share."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> int:
    return time.time_ns() // 1000


def after(seconds: float) -> int:
    return now() + round(seconds * 1_000_000)


def as_datetime(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
