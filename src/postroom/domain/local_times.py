"""Local times that clocks skip when daylight saving time begins."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def is_skipped(local: datetime, zone: tzinfo | None = None) -> bool:
    """Return whether clocks skip this time, which has no zone of its own.

    `zone` None stands for the zone of this machine. `OverflowError` near the ends of time.
    """
    there_and_back = local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
    return there_and_back.replace(tzinfo=None, fold=0) != local.replace(fold=0)
