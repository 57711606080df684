"""The types of what is known about a subscriber."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import Final, TypeAlias

FieldValue: TypeAlias = str | int | float | bool | date | Sequence[str] | None
"""A value of any type. `None`, an empty text and an empty sequence all mean that none is known."""


class FieldType(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    CHOICE = "choice"
    CHOICES = "choices"


_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')


def split_choices(text: str) -> list[str]:
    """Return the parts of a text such as `a|b`, `a, b` or `"a","b"`; quotes protect commas."""
    if "|" in text:
        parts = text.split("|")
    elif text.strip().startswith('"'):
        parts = [each.replace('""', '"') for each in _QUOTED.findall(text)]
    else:
        parts = re.split("[,;]", text)
    return [each.strip() for each in parts if each.strip()]
