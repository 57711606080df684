"""Whether a message measures opens and clicks."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from postroom.domain.errors import Invalid


class Track(StrEnum):
    OFF = "off"
    """Nothing is added to emails, and nothing is stored."""

    AGGREGATE = "aggregate"
    """All recipients have the same pixel and links: rates without individuals."""

    PERSONAL = "personal"
    """For subscribers who agreed to it: their own pixel and links."""


TRACKS: Final = (Track.OFF, Track.AGGREGATE)
"""Those that can be chosen."""


def parse_track(text: object, field: str = "track") -> Track:
    """Return what can be chosen. `Invalid`."""
    if text == Track.PERSONAL:
        raise Invalid(
            field, "personal is not available yet, even for people who consented: use aggregate"
        )
    if text not in set(Track):
        raise Invalid(field, f"must be off or aggregate, not {str(text)[:60]!r}")
    return Track(str(text))


def parse_track_choice(text: object) -> Track | None:
    """Return what a message chooses; None, or an empty text, leaves it to the list. `Invalid`."""
    return None if text is None or text == "" else parse_track(text)
