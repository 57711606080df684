"""Who gets a message: the subscribers of its lists, or of a segment of them, except some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.lists.lists import ListName, parse_list_name
from postroom.domain.audience.segments import parse_segment_name
from postroom.domain.errors import Invalid

Name = TypeVar("Name", bound=str)

MOST_EXCLUDED: Final = 10
"""Lists, and segments, that a message can exclude."""

MOST_MORE: Final = 10
"""Lists that a message can go to in addition to its own."""


class Audience(msgspec.Struct, frozen=True):
    """A part of a list: a segment of it, or all of it if none is named, without the subscribers of
    some other segments of it and of some other lists.

    With `more_lists`, their subscribers count as well, each person once; the rules of the list's
    segments then hold for all of them.
    """

    segment: str = ""
    exclude_segments: tuple[str, ...] = ()
    exclude_lists: tuple[ListName, ...] = ()
    more_lists: tuple[ListName, ...] = ()

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
        chosen = f"segment {self.segment}" if self.segment else "everyone"
        also = "".join(f", plus list {each}" for each in self.more_lists)
        return f"{chosen}{also}" + (f", except {', '.join(excluded)}" if excluded else "")


EVERYBODY: Final = Audience()


class AudienceRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules of an audience's segments as they were when the message was queued, with the types
    of the fields that they name: later changes of either do not matter. `formerly` has the earlier
    names of fields that were being renamed then: some rows still had their values under these.
    `formerly_on` has the same for each of the additional lists on which there are such fields."""

    segment: str = ""
    excluded: tuple[str, ...] = ()
    types: Mapping[str, FieldType] = {}
    formerly: Mapping[str, str] = {}
    formerly_on: Mapping[str, Mapping[str, str]] = {}

    def former_names(self, number: int, name: ListName) -> Mapping[str, str]:
        """Return the earlier names of fields on one of the message's lists, given by its number
        among them and its name."""
        return self.formerly_on.get(name, {}) if number else self.formerly


class Exclusion(StrEnum):
    """Why a subscriber of a list does not get a message."""

    UNCONFIRMED = "unconfirmed"
    BLOCKED = "blocked"
    PAUSED = "paused"
    OUTSIDE_SEGMENT = "outside_segment"
    EXCLUDED_SEGMENT = "excluded_segment"
    EXCLUDED_LIST = "excluded_list"
    DUPLICATE = "duplicate"
    """The person is also on another of the message's lists, and counts there."""


def parse_audience(audience: Audience) -> Audience:
    """Return an audience as it is stored. `Invalid`."""
    return Audience(
        parse_segment(audience.segment),
        parse_excluded_segments(audience.exclude_segments),
        parse_excluded_lists(audience.exclude_lists),
        parse_more_lists(audience.more_lists),
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


def parse_more_lists(names: Iterable[str]) -> tuple[ListName, ...]:
    """Return the names of additional lists, each once. `Invalid`."""
    field = "more_lists"
    return _few(field, dict.fromkeys(parse_list_name(each, field) for each in names), MOST_MORE)


def _few(field: str, names: Iterable[Name], most: int = MOST_EXCLUDED) -> tuple[Name, ...]:
    found = tuple(names)
    if len(found) > most:
        raise Invalid(field, f"must have at most {most} names, not {len(found)}")
    return found
