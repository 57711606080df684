"""The values of columns with one or several choices in a cell, such as the tags of other tools."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.domain.audience.field_types import FieldType, split_choices
from postroom.domain.audience.fields import LONGEST_CHOICE, MOST_CHOICES, Field
from postroom.services.audience.files.cells import unprotected
from postroom.services.audience.files.columns.columns import FileColumns
from postroom.services.audience.files.record_lines import RecordLines

_MOST_CELLS: Final = 10_000  # different ones that are remembered, so as not to split them again


def distinct_values(
    lines: RecordLines, columns: FileColumns, places: Mapping[int, FieldType]
) -> dict[int, tuple[str, ...]]:
    """Return the different values of columns, in the order of their first lines. After one more
    than a field can have, it does not look for others."""
    values: dict[int, dict[str, str]] = {place: {} for place in places}
    seen: dict[int, set[str]] = {place: set() for place in places}
    rows = csv.reader(lines, delimiter=columns.delimiter)
    while True:
        try:
            for row in rows:
                lines.used = lines.number
                for place in places:
                    if place < len(row) and (cell := row[place]) not in seen[place]:
                        if len(seen[place]) < _MOST_CELLS:
                            seen[place].add(cell)
                        _collect(values[place], cell, places[place])
        except csv.Error:  # reported with its line when the file is used
            lines.used = lines.number
            rows = csv.reader(lines, delimiter=columns.delimiter)
            continue
        return {place: tuple(found.values()) for place, found in values.items()}


def _collect(found: dict[str, str], cell: str, kind: FieldType) -> None:
    text = unprotected(cell).strip()
    several = [text] if kind is FieldType.CHOICE and text else split_choices(text)
    for each in several:
        if len(each) <= LONGEST_CHOICE and each.isprintable() and len(found) <= MOST_CHOICES:
            found.setdefault(each.casefold(), each)


def with_more_choices(field: Field, wanted: Field | None) -> Field:
    """Return a field with the choices of the wanted one, too."""
    if wanted is None or not wanted.choices:
        return field
    known = {each.casefold() for each in field.choices}
    more = [each for each in wanted.choices if each.casefold() not in known]
    return msgspec.structs.replace(field, choices=(*field.choices, *more))
