"""Slots: the places of an email that differ between recipients."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TypeAlias

import msgspec


class Slot(Enum):
    """What is inserted for each recipient, whatever the list is."""

    TO = auto()
    MESSAGE_ID = auto()
    GUID = auto()
    EMAIL_IN_SUBJECT = auto()
    EMAIL_IN_TEXT = auto()
    EMAIL_IN_HTML = auto()
    EMAIL_IN_URL = auto()


class ValuePlace(Enum):
    """Where the value of a field stands."""

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


AnySlot: TypeAlias = Slot | FieldSlot
Segments: TypeAlias = Sequence[str | AnySlot]
"""Static text, and slots."""
Pieces: TypeAlias = list[bytes | AnySlot]
"""The same, encoded."""
