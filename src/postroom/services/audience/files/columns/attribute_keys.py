"""The keys of a column of attributes as JSON, such as `{"city": "Bern", "age": 30}` of listmonk."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import (
    LARGEST_NUMBER,
    LONGEST_TEXT,
    MOST_FIELDS,
    value_text,
)
from postroom.services.audience.files.record_lines import RecordLines

_MOST_KEYS: Final = 10 * MOST_FIELDS
_PLAIN: Final = (str, bool, int, float)

_TYPES: Final = {
    frozenset({bool}): FieldType.BOOLEAN,
    frozenset({int}): FieldType.INTEGER,
    frozenset({float}): FieldType.NUMBER,
    frozenset({int, float}): FieldType.NUMBER,
}


def attribute_keys(lines: RecordLines, delimiter: str, place: int) -> dict[str, FieldType]:
    """Return the keys in a column whose values fit into a field, with the type that all of them
    have: text if in doubt. A key without any value is left out, and so is one with an object."""
    kinds: dict[str, set[type]] = {}
    unfit: set[str] = set()
    rows = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            for row in rows:
                lines.used = lines.number
                for key, value in _attributes(row, place).items():
                    if len(kinds) == _MOST_KEYS and key not in kinds:
                        continue
                    if not _fits(value):
                        unfit.add(key)
                    elif value not in ("", []) and value is not None:
                        kinds.setdefault(key, set()).add(_kind(value))
        except csv.Error:  # reported with its line when the file is used
            lines.used = lines.number
            rows = csv.reader(lines, delimiter=delimiter)
            continue
        return {
            key: _TYPES.get(frozenset(found), FieldType.TEXT)
            for key, found in kinds.items()
            if key not in unfit
        }


def _attributes(row: Sequence[str], place: int) -> dict[str, Any]:
    cell = row[place].strip() if place < len(row) else ""
    try:
        found = msgspec.json.decode(cell) if cell else {}
    except (msgspec.DecodeError, RecursionError):
        return {}  # reported with its line when the file is used
    return found if isinstance(found, dict) else {}


def _kind(value: Any) -> type:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str if is_number and abs(value) > LARGEST_NUMBER else type(value)


def _fits(value: Any) -> bool:
    if value is None:
        return True
    parts = value if isinstance(value, list) else [value]
    is_plain = all(type(each) in _PLAIN for each in parts)
    return is_plain and len(value_text(value)) <= LONGEST_TEXT
