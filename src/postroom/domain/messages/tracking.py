"""Whether a message measures opens and clicks."""

from __future__ import annotations

from enum import StrEnum

from postroom.domain.errors import Invalid


class Track(StrEnum):
    OFF = "off"
    """Nothing is added to emails, and nothing is stored."""

    AGGREGATE = "aggregate"
    """All recipients have the same pixel and links: rates without individuals."""

    PERSONAL = "personal"
    """Subscribers who agreed to it have a personal pixel and links; all others as above."""


def parse_track(text: object, field: str = "track") -> Track:
    """Return whether opens and clicks are measured. `Invalid`."""
    if text not in set(Track):
        raise Invalid(field, f"must be off, aggregate or personal, not {str(text)[:60]!r}")
    return Track(str(text))


def parse_track_choice(text: object) -> Track | None:
    """Return what a message chooses; None, or an empty text, leaves it to the list. `Invalid`."""
    return None if text is None or text == "" else parse_track(text)
