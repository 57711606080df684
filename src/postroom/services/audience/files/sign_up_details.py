"""What an export of another tool says about the sign-up of a subscriber."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from postroom.services.audience.files.cells import shown, unprotected
from postroom.services.audience.files.columns.meanings import Meaning

_LONGEST_NOTE: Final = 2000
_EARLIEST: Final = datetime(1990, 1, 1, tzinfo=UTC)


def time_of(text: str, now: datetime) -> datetime | None:
    """Return a time such as `2019-05-01 10:00:00`, in UTC unless it says otherwise.

    None if it cannot be read, or cannot be the time of a sign-up.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    try:
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except OverflowError:
        return None
    return found if _EARLIEST <= found <= now else None


def note_of(details: Mapping[Meaning, str]) -> str:
    return shown(unprotected(details.get(Meaning.NOTE, "")), longest=_LONGEST_NOTE - 1)


def consent_of(details: Mapping[Meaning, str]) -> str:
    """Return how the owner signed up and confirmed, with times and IP addresses, as one line."""
    steps = (
        ("signed up", Meaning.JOINED, Meaning.JOINED_FROM),
        ("confirmed", Meaning.CONFIRMED_AT, Meaning.CONFIRMED_FROM),
    )
    return ", ".join(
        " ".join(
            (
                what,
                *([shown(details[at])] if at in details else []),
                *([f"from {shown(details[place])}"] if place in details else []),
            )
        )
        for what, at, place in steps
        if at in details or place in details
    )
