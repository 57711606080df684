"""Columns of a file that fill fields, and the values in their cells.

A column belongs to the field whose name or label it has, in any language of the label; case, spaces
and punctuation do not matter. The fields that every list has are also recognised by the names in
`BUILT_IN_NAMES`. Of two columns for one field, the first one counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import (
    LARGEST_ATTRIBUTES,
    LONGEST_LABEL,
    Field,
    Fields,
    is_free_name,
    parse_value,
)
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown, squeezed, unprotected

BUILT_IN_NAMES: Final = {
    "first_name": (
        "first name", "fname", "given name", "forename", "prénom", "vorname", "이름", "имя",
    ),
    "last_name": (
        "last name", "lname", "surname", "family name", "nom de famille", "nachname",
        "familienname", "성", "фамилия",
    ),
    "language": ("language", "lang", "locale", "langue", "sprache", "언어", "язык"),
    "source": ("source", "quelle", "출처", "источник"),
}  # fmt: skip
"""What spreadsheets and other services call the columns, in five languages."""

_DAY: Final = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ].*)?", re.ASCII)
_DAY_FIRST: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)
_PLAIN: Final = re.compile(r"\w(?:[\w .-]*\w)?")
"""A text that JSON writes as it is, and that needs no check."""
_LONGEST_NAME: Final = 40
_MOST_KEPT: Final = 5000  # different cells of a column
_LONGEST_KEPT: Final = 50
_BYTES_PER_CHARACTER: Final = 4  # in UTF-8, at most


class FieldColumns:
    """The columns that fill fields.

    `places` has the name of the field by the number of its column. `new` has the fields that have
    to be declared first; they are made of the columns `create_from`.
    """

    def __init__(
        self, names: Mapping[int, str], fields: Fields, *, create_from: Collection[int] = ()
    ) -> None:
        known = _known_names(fields)
        self.places: dict[int, str] = {}
        self.new: dict[str, Field] = {}
        for place, name in names.items():
            field = known.get(squeezed(name), "")
            if field and field not in self.places.values():
                self.places[place] = field
        for place, name in names.items():
            if place in create_from and place not in self.places and squeezed(name):
                new = _new_field(name, {*(each.name for each in fields.all), *self.new})
                self.new[new.name] = new
                self.places[place] = new.name
        self._required = [each.name for each in fields.declared if each.required]
        everything = {each.name: each for each in fields.all} | self.new
        self._cells = [
            (place, _Cells(everything[name])) for place, name in sorted(self.places.items())
        ]

    @property
    def is_needed(self) -> bool:
        """Whether the file has fields, or lacks fields that are required."""
        return bool(self._cells or self._required)

    @property
    def has_required(self) -> bool:
        return bool(self._required)

    def attributes(self, row: Sequence[str]) -> str:
        """Return the attributes in a row as JSON; nothing if all cells are empty.

        `Invalid`; `IndexError` if the row is too short.
        """
        properties = ",".join(filter(None, [cells[row[place]] for place, cells in self._cells]))
        if len(properties) * _BYTES_PER_CHARACTER > LARGEST_ATTRIBUTES:
            _check_size(properties)
        return f"{{{properties}}}" if properties else ""

    def padded(self, row: list[str]) -> list[str]:
        """Return a row that is long enough for `attributes`."""
        return row + [""] * (max(self.places, default=0) + 1 - len(row))

    def missing(self, row: Sequence[str]) -> str:
        """Return the first required field for which a row has no value, or nothing."""
        if not self._required:
            return ""
        filled = {
            name for place, name in self.places.items() if place < len(row) and row[place].strip()
        }
        return next((name for name in self._required if name not in filled), "")


class _Cells(dict[str, str]):
    """The cells of a column, each with its part of a JSON object; an empty one has none.

    Most columns have few different cells, so each is read only once. `Invalid`.
    """

    def __init__(self, field: Field) -> None:
        self._field = field
        self._begin = f'"{field.name}":'
        self._longest_plain = field.max_length if field.type is FieldType.TEXT else 0

    def __missing__(self, cell: str) -> str:
        if len(cell) <= self._longest_plain and _PLAIN.fullmatch(cell):
            found = f'{self._begin}"{cell}"'
        else:
            found = self._read(cell)
        if len(self) < _MOST_KEPT and len(cell) <= _LONGEST_KEPT:
            self[cell] = found
        return found

    def _read(self, cell: str) -> str:
        text = unprotected(cell) if cell[:1] == "'" else cell
        if self._field.type is FieldType.DATE:
            text = _as_iso(text.strip())
        try:
            value = parse_value(self._field, text)
        except Invalid as exc:
            name = self._field.name
            raise Invalid(name, f"{name} {exc.problem}") from exc
        return "" if value is None else f"{self._begin}{msgspec.json.encode(value).decode()}"


def _as_iso(text: str) -> str:
    """Return a day as `2026-01-31`, if it is written so that it can only be one."""
    if (found := _DAY.fullmatch(text)) is not None:
        year, month, day = found.groups()
    elif (found := _DAY_FIRST.fullmatch(text)) is not None:
        day, month, year = found.groups()
    else:
        return text
    return f"{year}-{int(month):02}-{int(day):02}"


def _check_size(properties: str) -> None:
    size = len(properties.encode()) + 2
    if size > LARGEST_ATTRIBUTES:
        problem = f"the fields must have at most {LARGEST_ATTRIBUTES:,} bytes, not {size:,}"
        raise Invalid("attributes", problem)


def _known_names(fields: Fields) -> dict[str, str]:
    """Return fields by the names that a column may have."""
    known = {squeezed(each): name for name, names in BUILT_IN_NAMES.items() for each in names}
    for field in fields.all:
        known |= {squeezed(label): field.name for label in field.labels.values()}
    known |= {squeezed(field.name): field.name for field in fields.all}
    return known


def _new_field(column: str, taken: Collection[str]) -> Field:
    """Return a text field for a column, with a name that is free."""
    plain = unicodedata.normalize("NFKD", column.casefold()).encode("ascii", "ignore").decode()
    name = re.sub("[^a-z0-9]+", "_", plain).strip("_")[:_LONGEST_NAME].strip("_")
    if not name or not name[0].isalpha():
        name = f"field_{name}".strip("_")[:_LONGEST_NAME]
    number = 1
    free = name
    while free in taken or not is_free_name(free):
        number += 1
        free = f"{name[: _LONGEST_NAME - 4].strip('_')}_{number}"
    return Field(free, label=shown(column.strip(), longest=LONGEST_LABEL - 1))
