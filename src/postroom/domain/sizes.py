"""Sizes in bytes as people write and read them."""

from __future__ import annotations

import re

_BYTES = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


def parse_size(text: str) -> int:
    """Return the bytes of `200MB`; raise ValueError for anything else."""
    found = re.fullmatch(r"(\d{1,9})\s*(B|KB|MB|GB)", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError("is written like 200MB")
    return int(found[1]) * _BYTES[found[2].upper()]


def show_size(count: int) -> str:
    """Return bytes for people: 12 B, 3.4 KB, 120 MB."""
    if count < 1000:
        return f"{count} B"
    for unit, factor in (("KB", 1000), ("MB", 1000**2), ("GB", 1000**3)):
        if count < factor * 1000:
            return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count / 1000**4:.1f}".removesuffix(".0") + " TB"
