"""Who gets a message: the subscribers of its list, or of a segment of it, except some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.lists import ListName, parse_list_name
from postroom.domain.audience.segments import parse_segment_name
from postroom.domain.errors import Invalid

Name = TypeVar("Name", bound=str)

MOST_EXCLUDED: Final = 10
"""Lists, and segments, that a message can exclude."""


class Audience(msgspec.Struct, frozen=True):
    """A part of a list: a segment of it, or all of it if none is named, without the subscribers of
    some other segments of it and of some other lists."""

    segment: str = ""
    exclude_segments: tuple[str, ...] = ()
    exclude_lists: tuple[ListName, ...] = ()

    @property
    def is_everybody(self) -> bool:
        return self == EVERYBODY

    @property
    def segments(self) -> tuple[str, ...]:
        """All segments that are needed to tell who belongs to it."""
        return tuple(filter(None, (self.segment, *self.exclude_segments)))

    def __str__(self) -> str:
        excluded = [
            *(f"segment {each}" for each in self.exclude_segments),
            *(f"list {each}" for each in self.exclude_lists),
        ]
        chosen = f"segment {self.segment}" if self.segment else "everybody"
        return f"{chosen}, except {', '.join(excluded)}" if excluded else chosen


EVERYBODY: Final = Audience()


class AudienceRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules of an audience's segments as they were when the message was queued, with the types
    of the fields that they name: later changes of either do not matter. `formerly` has the earlier
    names of fields that were being renamed then: some rows still had their values under these."""

    segment: str = ""
    excluded: tuple[str, ...] = ()
    types: Mapping[str, FieldType] = {}
    formerly: Mapping[str, str] = {}


class Exclusion(StrEnum):
    """Why a subscriber of a list does not get a message."""

    UNCONFIRMED = "unconfirmed"
    BLOCKED = "blocked"
    PAUSED = "paused"
    OUTSIDE_SEGMENT = "outside_segment"
    EXCLUDED_SEGMENT = "excluded_segment"
    EXCLUDED_LIST = "excluded_list"


def parse_audience(audience: Audience) -> Audience:
    """Return an audience as it is stored. `Invalid`."""
    return Audience(
        parse_segment(audience.segment),
        parse_excluded_segments(audience.exclude_segments),
        parse_excluded_lists(audience.exclude_lists),
    )


def parse_segment(name: str) -> str:
    """Return the name of a segment; empty for none. `Invalid`."""
    return parse_segment_name(name, "segment") if name else ""


def parse_excluded_segments(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of excluded segments, each once. `Invalid`."""
    field = "exclude_segments"
    return _few(field, dict.fromkeys(parse_segment_name(each, field) for each in names))


def parse_excluded_lists(names: Iterable[str]) -> tuple[ListName, ...]:
    """Return the names of excluded lists, each once. `Invalid`."""
    field = "exclude_lists"
    return _few(field, dict.fromkeys(parse_list_name(each, field) for each in names))


def _few(field: str, names: Iterable[Name]) -> tuple[Name, ...]:
    found = tuple(names)
    if len(found) > MOST_EXCLUDED:
        raise Invalid(field, f"must have at most {MOST_EXCLUDED} names, not {len(found)}")
    return found
