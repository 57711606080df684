"""Guessing the type of a column from its first values.

A line whose value does not fit the type is rejected, so a column is text in case of doubt. A
name such as postcode is one: nobody calculates with such numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import LONGEST_CHOICE, is_day
from postroom.services.audience.files.cells import squeezed, unprotected
from postroom.services.audience.files.columns.dates import DateOrder, as_iso

ROWS: Final = 500
_TRUTH: Final = frozenset({"true", "false", "yes", "no"})
_WHOLE: Final = re.compile(r"-?(0|[1-9]\d{0,8})", re.ASCII)  # not 007, nor a telephone number
_DECIMAL: Final = re.compile(r"-?(0|[1-9]\d{0,8})(\.\d{1,9})?", re.ASCII)
_LABELS: Final = (
    "zip", "postal", "postcode", "plz", "codepostal", "phone", "telefon", "telephone", "mobile",
    "fax", "code", "number", "nummer", "numero", "tel", "id",
)  # fmt: skip
"""How the names of columns end whose digits are not an amount."""
_MOST_CHOICES: Final = 8
_LEAST_REPEATED: Final = 10
"""Times that each choice occurs on average, so that a column of names is not taken for choices."""


def guessed_type(name: str, cells: Sequence[str], order: DateOrder) -> FieldType | None:
    """Return the type of a column with these first values; None if they are all empty."""
    texts = [text for cell in cells if (text := unprotected(cell).strip())]
    if not texts:
        return None
    is_label = squeezed(name).endswith(_LABELS)
    if all(text.lower() in _TRUTH for text in texts):
        return FieldType.BOOLEAN
    if all(is_day(as_iso(text, order)) for text in texts):
        return FieldType.DATE
    if not is_label and all(map(_WHOLE.fullmatch, texts)):
        return FieldType.INTEGER
    if not is_label and all(map(_DECIMAL.fullmatch, texts)):
        return FieldType.NUMBER
    return FieldType.CHOICE if _are_choices(texts) else FieldType.TEXT


def _are_choices(texts: Sequence[str]) -> bool:
    different = {text.casefold() for text in texts}
    return (
        2 <= len(different) <= _MOST_CHOICES
        and len(texts) >= _LEAST_REPEATED * len(different)
        and all(len(text) <= LONGEST_CHOICE and text.isprintable() for text in texts)
    )
