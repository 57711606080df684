"""Lengths of time as people write them in settings and on the command line."""

from __future__ import annotations

import re
from datetime import timedelta

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
