"""Columns of a file that fill fields, and the values in their cells.

A column belongs to the field whose name or label it has, in any language of the label; case, spaces
and punctuation do not matter. The fields that every list has are also recognised by the names in
`BUILT_IN_NAMES`. Of two columns for one field, the first one counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from postroom.domain.audience.field_declarations import is_free_name
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import (
    BUILT_IN,
    LARGEST_ATTRIBUTES,
    LONGEST_LABEL,
    MOST_CHOICES,
    MOST_FIELDS,
    Field,
    Fields,
    is_day,
    parse_value,
    value_text,
)
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown, squeezed, unprotected
from postroom.services.audience.files.columns.dates import DateOrder, as_iso

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

TAG_NAMES: Final = frozenset({"tags", "labels", "étiquettes", "schlagwörter", "태그", "теги"})
"""Columns that have several short texts for each subscriber."""

_PLAIN: Final = re.compile(r"\w(?:[\w .-]*\w)?")
"""A text that JSON writes as it is, and that needs no check."""
_ISO_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST_NAME: Final = 40
_WITH_CHOICES: Final = (FieldType.CHOICE, FieldType.CHOICES)
_MOST_KEPT: Final = 100_000  # different cells of all columns: about 25 MB
_LONGEST_KEPT: Final = 50
_BYTES_PER_CHARACTER: Final = 4  # in UTF-8, at most


class FieldColumns:
    """The columns that fill fields.

    `places` has the name of the field by the number of its column. `new` has the fields that have
    to be declared first. Columns are `chosen` for a field, made to `create` one of a type, or
    `free`: then their names decide, and of those in `create_from` new fields are made, of the types
    in `guesses`. `full_name` is the column of whole names, `json` that of attributes as JSON; of
    its `keys`, new fields are made of these types.

    The different values of columns in `open_places` become the choices of a field, once `values`
    has them; `extended` has declared fields with more choices. With `extend`, a column may add
    choices to a field that the list declares.
    """

    def __init__(
        self,
        names: Sequence[str],
        fields: Fields,
        *,
        free: Mapping[int, str],
        create_from: Collection[int] = (),
        guesses: Mapping[int, FieldType] = {},
        chosen: Mapping[int, str] = {},
        create: Mapping[int, FieldType] = {},
        full_name: int | None = None,
        json: int | None = None,
        date_order: DateOrder = DateOrder.YEAR_FIRST,
        extend: bool = False,
        values: Mapping[int, Sequence[str]] = {},
        keys: Mapping[str, FieldType] = {},
        in_archive: bool = False,
    ) -> None:
        known = known_names(fields)
        self.places: dict[int, str] = {}
        self.new: dict[str, Field] = {}
        self.extended: dict[str, Field] = {}
        self.open_places: dict[int, FieldType] = {}
        self._guesses = guesses
        self._in_archive = in_archive
        for place, field in chosen.items():
            self._choose(place, field, fields)
        for place, name in free.items():
            field = known.get(squeezed(name), "")
            if field and field not in self.places.values():
                self.places[place] = field
        taken = {each.name for each in fields.all}
        for place in sorted({*create, *create_from} - self.places.keys()):
            field = known.get(squeezed(names[place]), "")
            if place in create and field and field not in self.places.values():
                self.places[place] = field  # an earlier import of this file has created it
            elif squeezed(names[place]):
                self._check_room()
                new = self._new_field(place, names[place], create.get(place), taken, values)
                if new is None:
                    continue
                self.new[new.name] = new
                taken.add(new.name)
                self.places[place] = new.name
        of_keys = self._fields_of_keys(keys, known, taken)
        self._extend(fields, create if not extend else self.places, values)
        self._required = [each.name for each in fields.declared if each.required]
        everything = {each.name: each for each in fields.all} | self.new | self.extended
        most = _MOST_KEPT // max(len(self.places), 1)
        self._cells: list[tuple[int, dict[str, str]]] = [
            (place, _Cells(everything[name], date_order, most))
            for place, name in sorted(self.places.items())
        ]
        if full_name is not None and "first_name" not in self.places.values():
            self._cells.append((full_name, _FullNames()))
        if json is not None:
            others = {key: everything[name] for key, name in (known | of_keys).items()}
            self._cells.append((json, _JsonCells(others, set(self.places.values()))))
        of_json = everything if json is not None else {}
        self.filled = frozenset((*self.places.values(), *of_json))
        """The names of the fields that get values."""

    def _choose(self, place: int, field: str, fields: Fields) -> None:
        if fields.get(field) is None:
            raise Invalid("columns", f"there is no field {shown(field)!r}")
        if field in self.places.values():
            raise Invalid("columns", f"two columns are chosen for the field {field}: choose one")
        self.places[place] = field

    def _new_field(
        self,
        place: int,
        column: str,
        kind: FieldType | None,
        taken: Collection[str],
        values: Mapping[int, Sequence[str]],
    ) -> Field | None:
        """Return a field for a column; None if it would have choices, but this file of
        an archive has no value. Tags become choices, if there are not too many."""
        is_free = kind is None
        if kind is None:
            is_tags = squeezed(column) in TAG_NAMES
            kind = FieldType.CHOICES if is_tags else self._guesses.get(place, FieldType.TEXT)
        if kind not in _WITH_CHOICES:
            return _new_field(column, kind, taken)
        self.open_places[place] = kind
        found = tuple(values.get(place, ()))
        if self._in_archive and place in values and not found:
            return None  # another file may have some
        if len(found) > MOST_CHOICES and not is_free:
            problem = f"has more than {MOST_CHOICES} different values: import it as text"
            raise Invalid("columns", f"the column {shown(column)} {problem}")
        if not 1 <= len(found) <= MOST_CHOICES:
            return _new_field(column, FieldType.TEXT, taken)
        new = _new_field(column, kind, taken)
        return msgspec.structs.replace(new, choices=found)

    def _fields_of_keys(
        self, keys: Mapping[str, FieldType], known: Mapping[str, str], taken: set[str]
    ) -> dict[str, str]:
        """Make new fields of unknown keys of attributes; return their names by the keys."""
        found: dict[str, str] = {}
        columns = {squeezed(each) for each in self.new}
        for key, kind in keys.items():
            name = squeezed(key)
            if not name or name in known or name in columns or name in found:
                continue
            self._check_room()
            new = _new_field(key, FieldType.TEXT if self._in_archive else kind, taken)
            self.new[new.name] = new
            taken.add(new.name)
            found[name] = new.name
        return found

    def _check_room(self) -> None:
        if len(self.new) == MOST_FIELDS:
            problem = f"would create more than {MOST_FIELDS} fields, the maximum of a list"
            raise Invalid("columns", problem)

    def _extend(
        self, fields: Fields, places: Collection[int], values: Mapping[int, Sequence[str]]
    ) -> None:
        """Add choices to fields of the list for values that are new."""
        own = {each.name: each for each in fields.own}
        for place in places:
            field = own.get(self.places.get(place, ""))
            if field is None or field.type is not FieldType.CHOICES:
                continue
            self.open_places[place] = field.type
            known = {each.casefold() for each in field.choices}
            more = tuple(each for each in values.get(place, ()) if each.casefold() not in known)
            if more and len(known) + len(more) <= MOST_CHOICES:
                choices = (*field.choices, *more)
                self.extended[field.name] = msgspec.structs.replace(field, choices=choices)

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
        return row + [""] * (max((place for place, _ in self._cells), default=0) + 1 - len(row))

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

    def __init__(self, field: Field, date_order: DateOrder, most: int) -> None:
        self._field = field
        self._date_order = date_order
        self._most = most
        self._is_date = field.type is FieldType.DATE
        self._begin = f'"{field.name}":'
        self._longest_plain = field.max_length if field.type is FieldType.TEXT else 0

    def __missing__(self, cell: str) -> str:
        if (len(cell) <= self._longest_plain and _PLAIN.fullmatch(cell)) or (
            self._is_date and _ISO_DAY.fullmatch(cell) and is_day(cell)
        ):
            found = f'{self._begin}"{cell}"'
        else:
            found = self._read(cell)
        if len(self) < self._most and len(cell) <= _LONGEST_KEPT:
            self[cell] = found
        return found

    def _read(self, cell: str) -> str:
        text = unprotected(cell) if cell[:1] == "'" else cell
        if self._field.type is FieldType.DATE:
            text = as_iso(text.strip(), self._date_order)
        try:
            value = parse_value(self._field, text)
        except Invalid as exc:
            name = self._field.name
            raise Invalid(name, f"{name} {exc.problem}") from exc
        return "" if value is None else f"{self._begin}{msgspec.json.encode(value).decode()}"


class _FullNames(dict[str, str]):
    """Whole names, each with its part of a JSON object: the first word is the first name."""

    def __missing__(self, cell: str) -> str:
        first, _, last = unprotected(cell).strip().partition(" ")
        names = zip(("first_name", "last_name"), (first, last.strip()), strict=True)
        return ",".join(_cells_of(BUILT_IN[name])[text] for name, text in names if text)


class _JsonCells(dict[str, str]):
    """Attributes as JSON objects; those that are not fields of the list are left out."""

    def __init__(self, fields: Mapping[str, Field], filled: Collection[str]) -> None:
        self._fields = fields
        self._filled = filled

    def __missing__(self, cell: str) -> str:
        try:
            return self._read(msgspec.json.decode(cell) if cell.strip() else {})
        except msgspec.DecodeError as exc:
            raise Invalid("attributes", f"the attributes are not JSON: {exc}") from exc
        except RecursionError as exc:
            raise Invalid("attributes", "the attributes are nested too deeply") from exc

    def _read(self, attributes: Any) -> str:
        found: dict[str, str] = {}
        for key, value in attributes.items() if isinstance(attributes, dict) else ():
            field = self._fields.get(squeezed(key))
            if field is not None and field.name not in self._filled:
                found[field.name] = _cells_of(field)[value_text(value)]
        return ",".join(filter(None, found.values()))


def _cells_of(field: Field) -> _Cells:
    return _Cells(field, DateOrder.YEAR_FIRST, 0)


def _check_size(properties: str) -> None:
    size = len(properties.encode()) + 2
    if size > LARGEST_ATTRIBUTES:
        problem = f"the fields must be at most {LARGEST_ATTRIBUTES:,} bytes, not {size:,}"
        raise Invalid("attributes", problem)


def known_names(fields: Fields) -> dict[str, str]:
    """Return fields by the names that a column may have."""
    known = {squeezed(each): name for name, names in BUILT_IN_NAMES.items() for each in names}
    for field in fields.all:
        known |= {squeezed(label): field.name for label in field.labels.values()}
    known |= {squeezed(field.name): field.name for field in fields.all}
    return known


def _new_field(column: str, kind: FieldType, taken: Collection[str]) -> Field:
    """Return a field for a column, with a name that is free."""
    plain = unicodedata.normalize("NFKD", column.casefold()).encode("ascii", "ignore").decode()
    name = re.sub("[^a-z0-9]+", "_", plain).strip("_")[:_LONGEST_NAME].strip("_")
    if not name or not name[0].isalpha():
        name = f"field_{name}".strip("_")[:_LONGEST_NAME]
    number = 1
    free = name
    while free in taken or not is_free_name(free):
        number += 1
        free = f"{name[: _LONGEST_NAME - 4].strip('_')}_{number}"
    return Field(free, kind, label=shown(column.strip(), longest=LONGEST_LABEL - 1))
