"""What a list may declare as its fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import (
    BUILT_IN,
    DECLARABLE,
    FROM_THE_ROW,
    LONGEST_CHOICE,
    LONGEST_LABEL,
    LONGEST_TEXT,
    MOST_CHOICES,
    MOST_FIELDS,
    Field,
    checked_value,
)
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES
from postroom.domain.plain_text import one_line

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_MERGE_FIELDS: Final = frozenset(
    {"list_description", "preferences_url", "unsubscribe_url", "web_url"}
)
_RULE_WORDS: Final = frozenset({"and", "in", "is", "not", "or", "within"})


def parse_fields(fields: Iterable[Field]) -> list[Field]:
    """Return the fields that a list can declare, checked. `Invalid`."""
    checked = [_parse_field(f"fields.{number}", each) for number, each in enumerate(fields)]
    if len(checked) > MOST_FIELDS:
        raise Invalid("fields", f"a list can have at most {MOST_FIELDS} fields, not {len(checked)}")
    for number, each in enumerate(checked):
        if each.name in {other.name for other in checked[:number]}:
            raise Invalid(f"fields.{number}.name", f"{each.name} is declared twice")
    return checked


def _parse_field(where: str, field: Field) -> Field:
    _check_name(f"{where}.name", field.name)
    if field.name in BUILT_IN and field.type is not FieldType.TEXT:
        problem = f"must be text, because {field.name} is built in, not {field.type}"
        raise Invalid(f"{where}.type", problem)
    choices = _parse_choices(f"{where}.choices", field)
    if not 1 <= field.max_length <= LONGEST_TEXT:
        problem = f"must be between 1 and {LONGEST_TEXT}, not {field.max_length}"
        raise Invalid(f"{where}.max_length", problem)
    label = _parse_label(f"{where}.label", field.label)
    checked = msgspec.structs.replace(field, label=label, choices=choices)
    if field.default in (None, "", [], ()):
        return msgspec.structs.replace(checked, default=None)
    default = checked_value(f"{where}.default", checked, field.default)
    return msgspec.structs.replace(checked, default=default)


def _parse_label(where: str, label: str | Mapping[str, str]) -> str | dict[str, str]:
    if isinstance(label, str):
        return one_line(where, label, longest=LONGEST_LABEL, required=False)
    for language in label:
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise Invalid(where, f"must be in one of the languages {known}, not {language[:20]!r}")
    checked = {
        language: one_line(f"{where}.{language}", label[language], longest=LONGEST_LABEL)
        for language in LANGUAGES
        if label.get(language)
    }
    return checked or ""


def is_free_name(name: str) -> bool:
    """Return whether a list could declare a field of this name, and does not have it anyway."""
    if name in BUILT_IN:
        return False
    try:
        _check_name("name", name)
    except Invalid:
        return False
    return True


def _check_name(where: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        problem = "must have 1 to 40 of a-z, 0-9 and _, beginning with a letter, not"
        raise Invalid(where, f"{problem} {name[:50]!r}")
    if name in BUILT_IN.keys() - DECLARABLE or name in FROM_THE_ROW or name in _MERGE_FIELDS:
        raise Invalid(where, f"{name} is built in: choose another name")
    if name in _RULE_WORDS:
        raise Invalid(where, f"{name} is a reserved word in rules: choose another name")


def _parse_choices(where: str, field: Field) -> tuple[str, ...]:
    has_choices = field.type in (FieldType.CHOICE, FieldType.CHOICES)
    if has_choices and not 1 <= len(field.choices) <= MOST_CHOICES:
        raise Invalid(where, f"must have 1 to {MOST_CHOICES} choices, not {len(field.choices)}")
    if field.choices and not has_choices:
        raise Invalid(where, f"must be left out: a field of the type {field.type} has no choices")
    choices = tuple(one_line(where, each, longest=LONGEST_CHOICE) for each in field.choices)
    if len({each.casefold() for each in choices}) < len(choices):
        raise Invalid(where, "must differ in more than upper and lower case")
    return choices
