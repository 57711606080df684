"""How numbers of things are said on these pages, and what others said of them."""

from __future__ import annotations


def counted(count: int, one: str, many: str) -> str:
    """1 address, 2,000 addresses"""
    return f"{count:,} {one if count == 1 else many}"


def short(text: str, longest: int = 200) -> str:
    """What is said once travels in a cookie: no room there for all that somebody typed."""
    return text if len(text) <= longest else f"{text[:longest]}…"
