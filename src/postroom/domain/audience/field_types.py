"""The types of what is known about a subscriber."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import TypeAlias

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
