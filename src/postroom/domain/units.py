"""Durations, sizes and local times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> timedelta:
    """Parse `500ms`, `30s`, `20m`, `2h` or `5d`. `ValueError`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)", text.strip(), re.ASCII)
    if found is None:
        raise ValueError("must be a duration such as 500ms, 30s, 20m, 2h or 5d")
    try:
        return timedelta(seconds=float(found[1]) * _SECONDS[found[2]])
    except OverflowError as exc:
        raise ValueError("must be shorter") from exc


def show_duration(length: timedelta) -> str:
    """Return the shortest text that `parse_duration` reads as this length."""
    milliseconds = round(length.total_seconds() * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


_BYTES = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


def parse_size(text: str) -> int:
    """Return the bytes of `200MB`; raise ValueError for anything else."""
    found = re.fullmatch(r"(\d{1,9})\s*(B|KB|MB|GB)", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError("must be a size such as 200MB")
    return int(found[1]) * _BYTES[found[2].upper()]


def show_size(count: int) -> str:
    """Return bytes for people: 12 B, 3.4 KB, 120 MB."""
    if count < 1000:
        return f"{count} B"
    for unit, factor in (("KB", 1000), ("MB", 1000**2), ("GB", 1000**3)):
        if count < factor * 1000:
            return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count / 1000**4:.1f}".removesuffix(".0") + " TB"


def is_skipped(local: datetime, zone: tzinfo | None = None) -> bool:
    """Return whether clocks skip this time, given without a zone.

    `zone` None stands for the zone of this machine. `OverflowError` near the ends of time.
    """
    there_and_back = local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
    return there_and_back.replace(tzinfo=None, fold=0) != local.replace(fold=0)
