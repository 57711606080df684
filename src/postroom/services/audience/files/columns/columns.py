"""The columns of a CSV file of subscribers: what each means, and what other tools' statuses mean.

Case, spaces, punctuation and accents of a column's name do not matter: `E-Mail_Address` is `email
address`. The names in five languages are in `column_names.py`, the words in `status_words.py`.

| column                               | meaning                                                  |
|--------------------------------------|----------------------------------------------------------|
| `email`, or another of `EMAIL_NAMES` | the address                                              |
| `verified`, `confirmed`              | true/false, yes/no, 1/0; empty says nothing              |
| `blocked`                            | why, or just true; empty says nothing                    |
| `status` and the like, `state`       | one of `STATUS_WORDS`; a `state` may also be a place, so |
|                                      | a word that is none of these says nothing there          |
| `subscribed`, `opt-in`, …            | yes, a date or a status: confirmed; no: unsubscribed     |
| `unsubscribed`, `unsub_time`, …      | anything but a no: this address has unsubscribed         |
| `blocklisted`, `bounced`, …          | anything but a no: this address must not receive email  |
| `sign-up date`, `confirmed at`, …    | when and how the owner signed up                         |
| the name or label of a field         | its value (`field_columns.py`); empty says nothing       |

Of several columns the strictest counts: blocked, unsubscribed, pending, confirmed, in this order. A
line with an unknown status is rejected: an unknown word verifies nobody.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import MOST_FIELDS, Fields
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown, squeezed
from postroom.services.audience.files.columns.column_names import (
    EMAIL_NAMES,
    MEANINGS,
    VERIFIED_NAMES,
)
from postroom.services.audience.files.columns.dates import DateOrder, as_iso_time
from postroom.services.audience.files.columns.field_columns import FieldColumns, known_names
from postroom.services.audience.files.columns.meanings import STATUSES, Meaning, Standing
from postroom.services.audience.files.columns.status_words import standing_of
from postroom.services.audience.files.tools import Tool, recognise

EMAIL, VERIFIED, BLOCKED = "email", "verified", "blocked"

DELIMITERS: Final = ",;\t"
LONGEST_HEADER: Final = 64 * 1024  # characters
_NAMES_SHOWN: Final = 7
_LONGEST_FOUND: Final = 300
_EMAIL_KEYS: Final = frozenset(map(squeezed, EMAIL_NAMES))
_OF_AN_EXPORT: Final = frozenset({"createdat"})
"""Columns of our own exports that an import does not use."""

SKIP: Final = "skip"
_FIELD, _NEW = "field:", "new:"


class ColumnChoice(msgspec.Struct, frozen=True):
    """What a column is to be used for: `field` is filled, or a new one of this `type`."""

    meaning: Meaning
    field: str = ""
    type: FieldType | None = None


def parse_choice(text: str) -> ColumnChoice:
    """Return a choice such as `address`, `status`, `skip`, `field:city` or `new:date`.

    `Invalid`.
    """
    if text == SKIP:
        return ColumnChoice(Meaning.UNUSED)
    if text.startswith(_FIELD):
        return ColumnChoice(Meaning.FIELD, text.removeprefix(_FIELD))
    kind = text.removeprefix(_NEW)
    if text.startswith(_NEW) and kind in set(FieldType):
        return ColumnChoice(Meaning.FIELD, type=FieldType(kind))
    if text in set(Meaning) - {Meaning.FIELD, Meaning.UNUSED}:
        return ColumnChoice(Meaning(text))
    raise Invalid("columns", f"a column cannot be used for {shown(text)!r}")


def read_choices(pairs: Iterable[str]) -> dict[str, str]:
    """Return what columns are used for, from texts such as `Shoe size=new:integer`. `Invalid`."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, use = pair.rpartition("=")  # a name may have one, too
        if not separator or not name:
            raise Invalid("column", f"must be NAME=USE, such as Size=new:text, not {shown(pair)!r}")
        parse_choice(use)
        found[name] = use
    return found


class ColumnPlan(msgspec.Struct, frozen=True):
    """What is known about the columns of a file, apart from their names.

    `fields` are those of the list; with `create_fields`, other columns become fields, too: of text,
    or with `guess_types` of the type in `guesses`, if there is one. `chosen` says for columns, by
    their names, what they are used for. `least` is the minimum state of all addresses of the file,
    with the word for it. `values` has the different values of columns that become choices.
    `keys` are those of attributes as JSON. `in_archive` is about one of several files.
    """

    fields: Fields = Fields()
    create_fields: bool = False
    guess_types: bool = False
    guesses: Mapping[int, FieldType] = {}
    chosen: Mapping[str, ColumnChoice] = {}
    date_order: DateOrder = DateOrder.YEAR_FIRST
    least: tuple[Standing, str] | None = None
    values: Mapping[int, Sequence[str]] = {}
    keys: Mapping[str, FieldType] = {}
    in_archive: bool = False


class FileColumn(msgspec.Struct, frozen=True):
    """A column of a file, in its order, and what it is used for.

    `field` is the field that it fills; one that `is_new` is created by the import, of this `type`.
    """

    name: str
    meaning: Meaning
    field: str = ""
    is_new: bool = False
    type: FieldType = FieldType.TEXT

    @property
    def text(self) -> str:
        """Return what the column is used for, for a preview."""
        if self.meaning is not Meaning.FIELD:
            return self.meaning.text
        return f"New field {self.field}" if self.is_new else f"Field {self.field}"


class FileColumns:
    """The parsed header line of a file. `Invalid` says what is wrong with it."""

    def __init__(self, header: str, plan: ColumnPlan | None = None) -> None:
        plan = plan or ColumnPlan()
        self.delimiter, self.names = _parse_header(header, frozenset(map(squeezed, plan.chosen)))
        chosen = _chosen_for(self.names, plan.chosen)
        self.tool = recognise(self.names)
        self.email = _email_column(self.names, chosen)
        self._date_order = plan.date_order
        self._meanings = self._find_meanings(chosen, plan.fields)
        self.verified = self._place(Meaning.VERIFIED)
        self.blocked = self._place(Meaning.BLOCKED)
        self.foreign_id = self._place(Meaning.FOREIGN_ID)
        self.attributes = self._place(Meaning.ATTRIBUTES)
        self._left_at = self._place(Meaning.HAS_UNSUBSCRIBED)
        self.fields = self._field_columns(plan, chosen)
        self._least = plan.least or _least(self.tool)
        self._words = self.tool.words if self.tool else {}
        self._is_told = plan.least is not None
        # A column can fill a field, too. Then its words need not be those of a status.
        is_lenient = {Meaning.STATUS: Meaning.STATE}
        self._statuses = [
            (place, is_lenient.get(each, each) if place in self.fields.places else each)
            for place, each in self._meanings.items()
            if each in STATUSES
        ]

    def _find_meanings(
        self, chosen: Mapping[int, ColumnChoice], fields: Fields
    ) -> dict[int, Meaning]:
        """Return the columns that have a meaning, in order."""
        names = list(map(squeezed, self.names))
        found: dict[int, Meaning] = {self.email: Meaning.ADDRESS}
        for place, name in enumerate(names):
            if place in chosen:
                found.setdefault(place, chosen[place].meaning)
            elif self.tool is not None and name in self.tool.columns:
                found.setdefault(place, self.tool.columns[name])
        for meaning, usual in ((Meaning.VERIFIED, VERIFIED_NAMES), (Meaning.BLOCKED, (BLOCKED,))):
            known = [names.index(each) for each in map(squeezed, usual) if each in names]
            if known and meaning not in found.values():
                found.setdefault(known[0], meaning)
        of_fields = known_names(fields)
        for place, name in enumerate(names):
            meaning = MEANINGS.get(name, Meaning.UNUSED)
            is_taken = meaning not in _WITH_FIELDS and (
                name in of_fields or (meaning in _DETAILS and meaning in found.values())
            )
            if name in MEANINGS and not is_taken:
                found.setdefault(place, meaning)
        return dict(sorted(found.items()))

    def _place(self, meaning: Meaning) -> int | None:
        return next((place for place, each in self._meanings.items() if each is meaning), None)

    def _field_columns(self, plan: ColumnPlan, chosen: Mapping[int, ColumnChoice]) -> FieldColumns:
        picked = {
            place: choice for place, choice in chosen.items() if choice.meaning is Meaning.FIELD
        }
        free = {
            place: name
            for place, name in enumerate(self.names)
            if place not in chosen
            and squeezed(name) not in _OF_AN_EXPORT
            and self._meanings.get(place) in (None, *STATUSES)
        }
        unknown = [place for place in free if place not in self._meanings]
        if plan.guess_types:
            room = MOST_FIELDS - len(plan.fields.declared)
            unknown = [place for place in unknown if place in plan.guesses][:room]
        creates = plan.create_fields
        return FieldColumns(
            self.names,
            plan.fields,
            free=free,
            create_from=unknown if creates else (),
            guesses=plan.guesses,
            chosen={place: each.field for place, each in picked.items() if each.field},
            create={place: each.type for place, each in picked.items() if each.type},
            full_name=self._place(Meaning.NAME),
            json=self.attributes,
            date_order=plan.date_order,
            extend=creates,
            values=plan.values,
            keys=plan.keys if creates else {},
            in_archive=plan.in_archive,
        )

    @property
    def has_statuses(self) -> bool:
        return bool(self._statuses or self._least)

    @property
    def warning(self) -> str:
        """Return advice if the export of a tool does not say who unsubscribed there."""
        tool = self.tool
        if tool is None or self._is_told or (self._statuses and not tool.never_says):
            return ""
        return (
            f"This file does not say who unsubscribed in {tool.name}: if it contains such people,"
            f" they could get messages here. {tool.advice}."
        )

    @property
    def has_details(self) -> bool:
        return any(each in self._meanings.values() for each in _DETAILS)

    @property
    def all(self) -> list[FileColumn]:
        """Return what each column is used for, in the file's order."""
        known = {**dict.fromkeys(self.fields.places, Meaning.FIELD), **self._meanings}
        known.update(self._statuses)
        found = []
        for place, name in enumerate(self.names):
            field = self.fields.places.get(place, "")
            new = self.fields.new.get(field)
            kind = FieldType.TEXT if new is None else new.type
            meaning = known.get(place, Meaning.UNUSED)
            found.append(FileColumn(shown(name), meaning, field, new is not None, kind))
        return found

    def standing(self, row: Sequence[str]) -> tuple[Standing | None, str]:
        """Return the state of a row's address in the other tool, and the word for it in the file.

        `Invalid` for an unknown status.
        """
        found: tuple[Standing | None, str] = self._least or (None, "")
        for place, meaning in self._statuses:
            if place >= len(row):
                continue
            standing = self._words.get(squeezed(row[place])) if self._words else None
            if standing is None or meaning is not Meaning.STATUS:
                standing = standing_of(meaning, row[place])
            if standing is not None and (found[0] is None or standing > found[0]):
                is_word = meaning in (Meaning.STATUS, Meaning.STATE)
                found = standing, row[place].strip() if is_word else self.names[place]
        return found

    def details(self, row: Sequence[str]) -> dict[Meaning, str]:
        """Return what a row says about the sign-up, and its note, as texts."""
        return {
            meaning: self._time(row[place]) if meaning in _TIMES else row[place].strip()
            for place, meaning in self._meanings.items()
            if meaning in _DETAILS and place < len(row) and row[place].strip()
        }

    def left_at(self, row: Sequence[str]) -> str:
        """Return when the owner of a row's address unsubscribed, or nothing."""
        place = self._left_at
        return self._time(row[place]) if place is not None and place < len(row) else ""

    def _time(self, cell: str) -> str:
        return as_iso_time(cell.strip(), self._date_order)


_DETAILS: Final = frozenset(
    {
        Meaning.JOINED,
        Meaning.CONFIRMED_AT,
        Meaning.JOINED_FROM,
        Meaning.CONFIRMED_FROM,
        Meaning.NOTE,
        Meaning.FOREIGN_ID,
    }
)
_TIMES: Final = frozenset({Meaning.JOINED, Meaning.CONFIRMED_AT})
_WITH_FIELDS: Final = STATUSES - {Meaning.IS_SUBSCRIBED}
"""What a column of this name means even if it is also the name of a field of the list: their words
are clear. A field that is a yes or a no, or a date, may be about anything."""


def _least(tool: Tool | None) -> tuple[Standing, str] | None:
    return (tool.default, tool.name) if tool is not None and tool.default is not None else None


def unread_columns(header: str) -> list[FileColumn]:
    """Return the columns of a header line in which no column of addresses was found."""
    line = header.removeprefix("\ufeff").strip()
    delimiter = max(DELIMITERS, key=line.count)
    names = next(csv.reader([line], delimiter=delimiter), [])
    return [FileColumn(shown(name.strip()), Meaning.UNUSED) for name in names]


# -- header ---------------------------------------------------------------------------------------


def _chosen_for(
    columns: Sequence[str], chosen: Mapping[str, ColumnChoice]
) -> dict[int, ColumnChoice]:
    """Return the choices by the numbers of columns. A choice is for the column of exactly its name,
    and otherwise for those with similar names."""
    alike = {squeezed(name): choice for name, choice in chosen.items() if name not in columns}
    found = {
        place: chosen.get(name) or alike.get(squeezed(name)) for place, name in enumerate(columns)
    }
    return {place: choice for place, choice in found.items() if choice is not None}


def _parse_header(line: str, chosen: Collection[str]) -> tuple[str, list[str]]:
    """Return the delimiter and the names of the columns. Names that are `chosen` are squeezed."""
    if len(line) == LONGEST_HEADER and line[-1] not in "\r\n":
        raise Invalid("file", f"the first line has more than {LONGEST_HEADER:,} characters")
    header = line.removeprefix("\ufeff").rstrip("\r\n")
    if not header.strip():
        raise Invalid("file", "has no header line: the first line must name a column 'email'")
    # The delimiter with the most columns first; a comma if there is only one column.
    for delimiter in sorted(DELIMITERS, key=header.count, reverse=True):
        columns = [cell.strip() for cell in next(csv.reader([header], delimiter=delimiter))]
        if any(squeezed(each) in _EMAIL_KEYS or squeezed(each) in chosen for each in columns):
            _check_named_once(columns)
            return delimiter, columns
    if "@" in header:
        raise Invalid("file", "has no header line: add a first line with the column 'email'")
    most_used = max(DELIMITERS, key=header.count)
    found = ", ".join(repr(shown(each.strip())) for each in header.split(most_used))
    raise Invalid(
        "file",
        f"has no column 'email', only {shown(found, longest=_LONGEST_FOUND)}. Name the column of"
        f" addresses {', '.join(EMAIL_NAMES[:_NAMES_SHOWN])} or similar",
    )


def _email_column(columns: list[str], chosen: Mapping[int, ColumnChoice]) -> int:
    """Return the chosen column, or `email`; without it, the only one with a similar name."""
    names = list(map(str.lower, columns))
    uses = [chosen.get(place) for place in range(len(columns))]
    picked = [at for at, each in enumerate(uses) if each and each.meaning is Meaning.ADDRESS]
    if picked:
        return picked[0]
    if EMAIL in names and uses[names.index(EMAIL)] is None:
        return names.index(EMAIL)
    fitting = [
        at for at, name in enumerate(names) if squeezed(name) in _EMAIL_KEYS and uses[at] is None
    ]
    if not fitting:
        raise Invalid("file", "has no column of addresses: choose which one it is")
    if len(fitting) > 1:
        found = " and ".join(repr(shown(columns[at])) for at in fitting)
        raise Invalid("file", f"has addresses in the columns {found}: name one of them 'email'")
    return fitting[0]


def _check_named_once(columns: list[str]) -> None:
    for name in (EMAIL, VERIFIED, BLOCKED):
        if list(map(str.lower, columns)).count(name) > 1:
            raise Invalid("file", f"has the column {name!r} twice")
