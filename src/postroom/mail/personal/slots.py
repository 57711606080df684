"""Slots: the places of an email that differ between recipients."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TypeAlias, TypeVar

import msgspec

from postroom.mail.personal.content_conditions import MarkerKind

T = TypeVar("T")


class Slot(Enum):
    """What is inserted for each recipient, whatever the list is."""

    TO = auto()
    MESSAGE_ID = auto()
    GUID = auto()
    BOUNCE_TOKEN = auto()
    """See `bounces/envelope_tokens.py`."""
    LINK_TOKEN = auto()
    """See `tracking/tracking_tokens.py`."""
    EMAIL_IN_SUBJECT = auto()
    EMAIL_IN_TEXT = auto()
    EMAIL_IN_HTML = auto()
    EMAIL_IN_URL = auto()


class ValuePlace(Enum):
    """The context of the value of a field."""

    SUBJECT = auto()
    TEXT = auto()
    HTML = auto()
    LINK = auto()
    """The beginning of a link in HTML."""
    IN_LINK = auto()


class FieldSlot(msgspec.Struct, frozen=True):
    """A field of the list: its number among the values of a recipient, and what stands for an empty
    one. In a subject, the line is folded before or after a value that is not empty."""

    number: int
    place: ValuePlace
    default: str = ""
    fold_before: bool = False
    fold_after: bool = False

    def value(self, values: Sequence[str]) -> str:
        """Return the text to insert. A recipient without values is an example of one."""
        return (values[self.number] if values else "") or self.default


class BranchSlot(msgspec.Struct, frozen=True):
    """A marker of a condition, which has this number among the values of a recipient. What stands
    between two markers is for some recipients only."""

    number: int
    kind: MarkerKind


AnySlot: TypeAlias = Slot | FieldSlot | BranchSlot
Segments: TypeAlias = Sequence[str | AnySlot]
"""Static text, and slots."""
Pieces: TypeAlias = list[bytes | AnySlot]
"""The same, encoded."""


def chosen(pieces: Sequence[T], values: Sequence[str]) -> list[T]:
    """Return the segments or pieces that a recipient with these values gets, without markers."""
    kept: list[T] = []
    is_shown = True
    for each in pieces:
        if not isinstance(each, BranchSlot):
            if is_shown:
                kept.append(each)
            continue
        holds = bool(values and values[each.number])
        is_shown = each.kind is MarkerKind.END or holds is (each.kind is MarkerKind.IF)
    return kept
