"""Fields: what is known about a subscriber in addition to the address.

A list declares its fields. The values of a subscriber are its attributes: a JSON object in the
subscriber's row, with a date as `2026-01-31`. Some fields are built in; `email` and `joined` come
from the row itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any, Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldType, FieldValue, split_choices
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES
from postroom.domain.plain_text import some_lines

MOST_FIELDS: Final = 100
MOST_CHOICES: Final = 100
LONGEST_LABEL: Final = 100
LONGEST_CHOICE: Final = 100
LONGEST_TEXT: Final = 1000
LARGEST_ATTRIBUTES: Final = 16_384
LARGEST_NUMBER: Final = 2**53  # up to here, JSON numbers are exact everywhere

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?\d{1,16}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?\d{1,16}(\.\d{1,16})?", re.ASCII)
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "y", "1", "on"), True),
    **dict.fromkeys(("false", "no", "n", "0", "off"), False),
}


class Field(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field that a list declares.

    `label` is a text, or has one for each language: `{"en": "City", "de": "Stadt"}`. A `public`
    field is for the subscriber to see and to change. `default` stands for a missing value in
    emails. `choices` are the values of a choice; `max_length` limits a text. `formerly` is the
    earlier name of a field while its values are being renamed.
    """

    name: str
    type: FieldType = FieldType.TEXT
    label: str | dict[str, str] = ""
    required: bool = False
    public: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    max_length: int = LONGEST_TEXT
    formerly: str = ""

    @property
    def shown_label(self) -> str:
        """Return the label for the team, whose pages are in English."""
        return self.label_in(LANGUAGES[0])

    def label_in(self, language: str) -> str:
        """Return the label in a language, or in another if there is none, or the name."""
        labels = self.labels
        found = labels.get(language) or labels.get(LANGUAGES[0]) or next(iter(labels.values()), "")
        return found or self.name.replace("_", " ").capitalize()

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels by language; one without a language counts for all."""
        if isinstance(self.label, str):
            return {LANGUAGES[0]: self.label} if self.label else {}
        return self.label


BUILT_IN: Final = {
    each.name: each
    for each in (
        Field("first_name", label="First name", public=True),
        Field("last_name", label="Last name", public=True),
        Field("language", label="Language", max_length=35),
        Field("source", label="Source"),
    )
}
"""Fields that every list has. Their values are attributes like those of declared fields."""

DECLARABLE: Final = frozenset({"first_name", "last_name"})
"""Built-in fields that a list may declare, to label, require or default them. The others are also
written by Postroom itself."""

FROM_THE_ROW: Final = {"email": FieldType.TEXT, "joined": FieldType.DATE}
"""Fields whose values the row of a subscriber has anyway."""


class Fields:
    """The fields of one list: those that are declared, on the list or for all lists, and those
    that are built in."""

    def __init__(self, own: Iterable[Field] = (), shared: Iterable[Field] = ()) -> None:
        """`own` are declared by the list itself, `shared` for all lists."""
        self.own = tuple(own)
        self.shared = tuple(shared)
        self.declared = (*self.shared, *self.own)
        self._all = {**BUILT_IN, **{each.name: each for each in self.declared}}
        self._renamed = {each.formerly: each for each in self.declared if each.formerly}
        self.texts = frozenset(each.name for each in self._all.values() if each.type in _TEXTS)
        """The fields whose values are texts, and are compared and shown as they are."""
        # By the names that attributes may have: looked up for each recipient of a message.
        self._compared = {
            name: (each.name, _COMPARED[each.type])
            for name, each in {**self._renamed, **self._all}.items()
        }

    @property
    def all(self) -> tuple[Field, ...]:
        """Every field whose values are attributes, those that are built in first."""
        return tuple(self._all.values())

    def get(self, name: str) -> Field | None:
        """Return a field by its name, or by the one that it had before it was renamed."""
        return self._all.get(name) or self._renamed.get(name)

    @property
    def types(self) -> dict[str, FieldType]:
        """The type of every field that a rule can name."""
        return {**FROM_THE_ROW, **{name: each.type for name, each in self._all.items()}}

    @property
    def public(self) -> tuple[Field, ...]:
        """The fields that subscribers can see and change, in order."""
        return tuple(each for each in self._all.values() if each.public)

    def check(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes as they are stored: checked, and without empty values. `Invalid`."""
        checked: dict[str, Any] = {}
        for name, value in attributes.items():
            where = f"attributes.{name}"
            if (field := self._all.get(name)) is None:
                raise Invalid(where, f"is not a field of this list; the fields are {self._names}")
            if value not in (None, "", [], ()):
                checked[name] = checked_value(where, field, value)
        return check_size(checked)

    def keeping_choices(self, attributes: Mapping[str, Any]) -> Fields:
        """Return these fields with the choices that a subscriber has, even if they are no longer
        offered to others: saving a form must not change what nobody has touched."""

        def keeping(field: Field) -> Field:
            if field.type not in (FieldType.CHOICE, FieldType.CHOICES):
                return field
            stored = attributes.get(field.name, attributes.get(field.formerly))
            known = {each.casefold() for each in field.choices}
            chosen = stored if isinstance(stored, list) else [stored]
            former = [e for e in chosen if isinstance(e, str) and e and e.casefold() not in known]
            return msgspec.structs.replace(field, choices=(*field.choices, *former))

        return Fields(map(keeping, self.own), map(keeping, self.shared))

    def parse(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return attributes from texts, as a form or a command line has them. `Invalid`."""
        read: dict[str, Any] = {}
        for name, text in texts.items():
            field = self._all.get(name)
            read[name] = text if field is None else _from_text(field, text.strip())
        return self.check(read)

    def check_complete(self, attributes: Mapping[str, Any], *, public_only: bool = False) -> None:
        """Raise `Invalid` if a required field has no value. With `public_only`, those that a
        subscriber cannot fill in may be missing."""
        for each in self.declared:
            is_needed = each.required and (each.public or not public_only)
            if is_needed and each.name not in attributes:
                raise Invalid(f"attributes.{each.name}", "is required")

    def check_public(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes that a subscriber has filled in, as they are stored. `Invalid` if one
        is not public, or a required one is missing."""
        public = [each.name for each in self.public]
        for name in attributes:
            if name not in public:
                problem = f"is not a public field of this list; those are {', '.join(public)}"
                raise Invalid(f"attributes.{name}", problem)
        checked = self.check(attributes)
        self.check_complete(checked, public_only=True)
        return checked

    def values(
        self, address: Address, joined: datetime, attributes: Mapping[str, Any]
    ) -> dict[str, FieldValue]:
        """Return the values of a subscriber, as rules compare them.

        A value that does not fit its field, whose type was changed since, counts as empty.
        """
        values: dict[str, FieldValue] = {"email": address, "joined": joined.date()}
        for name, value in attributes.items():
            if (found := self._compared.get(name)) is not None:
                current, compared = found
                values[current] = compared(value)
        return values

    @property
    def _names(self) -> str:
        return ", ".join(self._all)


def parse_value(field: Field, text: str) -> Any:
    """Return the value that a cell of a file stands for; None if it is empty. `Invalid`."""
    value = _from_text(field, text.strip())
    return None if value in ("", []) else checked_value(field.name, field, value)


def checked_value(where: str, field: Field, value: object) -> Any:
    """Return a value as it is stored. `Invalid` names `where` it is wrong."""
    return _CHECKS[field.type](where, field, value)


def value_text(value: Any) -> str:
    """Write a stored value as a text from which `parse_value` reads it again."""
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return "|".join(map(str, value))
        case float() if value.is_integer():
            return str(int(value))
        case None:
            return ""
        case _:
            return str(value)


def check_size(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes if there is room for them in a subscriber's row. `Invalid`."""
    size = len(msgspec.json.encode(attributes))
    if size > LARGEST_ATTRIBUTES:
        problem = f"must be at most {LARGEST_ATTRIBUTES:,} bytes, not {size:,}"
        raise Invalid("attributes", problem)
    return attributes


def is_day(text: str) -> bool:
    """Return whether a text such as `2026-01-31` is a day of the calendar."""
    return _day(text) is not None


def _text(where: str, field: Field, value: object) -> str:
    if not isinstance(value, str):
        raise Invalid(where, f"must be a text, not {_shown(value)}")
    return some_lines(where, value, longest=field.max_length)


def _integer(where: str, _: Field, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(where, f"must be a whole number, not {_shown(value)}")
    _check_size(where, value)
    return value


def _number(where: str, _: Field, value: object) -> int | float:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not is_finite:
        raise Invalid(where, f"must be a number, not {_shown(value)}")
    _check_size(where, value)
    return value


def _check_size(where: str, value: float) -> None:
    if abs(value) > LARGEST_NUMBER:
        raise Invalid(where, f"must be between -{LARGEST_NUMBER} and {LARGEST_NUMBER}, not {value}")


def _boolean(where: str, _: Field, value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(where, f"must be true or false, not {_shown(value)}")
    return value


def _date(where: str, _: Field, value: object) -> str:
    if isinstance(value, str) and _DATE.fullmatch(value) and _day(value) is not None:
        return value
    raise Invalid(where, f"must be a date such as 2026-01-31, not {_shown(value)}")


def _choice(where: str, field: Field, value: object) -> str:
    wanted = value.casefold() if isinstance(value, str) else None
    found = next((each for each in field.choices if each.casefold() == wanted), None)
    if found is None:
        raise Invalid(where, f"must be one of {', '.join(field.choices)}, not {_shown(value)}")
    return found


def _several(where: str, field: Field, value: object) -> list[str]:
    if not isinstance(value, list | tuple):
        raise Invalid(where, f"must be several of {', '.join(field.choices)}, not {_shown(value)}")
    return list(dict.fromkeys(_choice(where, field, each) for each in value))


def _shown(value: object) -> str:
    return repr(value)[:50]


def _from_text(field: Field, text: str) -> Any:
    """Return the value that a text stands for; the text itself if it stands for none."""
    match field.type:
        case FieldType.INTEGER if _WHOLE.fullmatch(text):
            return int(text)
        case FieldType.NUMBER if _DECIMAL.fullmatch(text):
            return float(text)
        case FieldType.BOOLEAN:
            return _BOOLEANS.get(text.lower(), text)
        case FieldType.CHOICES:
            return _several_from_text(field, text)
        case _:
            return text


def _several_from_text(field: Field, text: str) -> list[str]:
    """Split at `|`, or else at commas and semicolons, unless those belong to a choice."""
    if text.casefold() in {each.casefold() for each in field.choices}:
        return [text]
    return split_choices(text)


def _only(*kinds: type) -> Callable[[Any], Any]:
    return lambda value: value if type(value) in kinds else None


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return None


_TEXTS: Final = (FieldType.TEXT, FieldType.CHOICE)
_COMPARED: Final[Mapping[FieldType, Callable[[Any], FieldValue]]] = {
    FieldType.TEXT: _only(str),
    FieldType.INTEGER: _only(int, float),
    FieldType.NUMBER: _only(int, float),
    FieldType.BOOLEAN: _only(bool),
    FieldType.DATE: _day,
    FieldType.CHOICE: _only(str),
    FieldType.CHOICES: _only(list),
}

_CHECKS: Final[Mapping[FieldType, Callable[[str, Field, object], Any]]] = {
    FieldType.TEXT: _text,
    FieldType.INTEGER: _integer,
    FieldType.NUMBER: _number,
    FieldType.BOOLEAN: _boolean,
    FieldType.DATE: _date,
    FieldType.CHOICE: _choice,
    FieldType.CHOICES: _several,
}
