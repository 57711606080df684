"""Merge fields: `{{ email }}`, `{{ list_description }}`, the links `{{ unsubscribe_url }}`,
`{{ preferences_url }}` and `{{ web_url }}`, and the fields of the list, such as
`{{ first_name | default: "there" }}`.

Spaces inside the braces are optional. `{{ name | default: "there" }}` says what stands for an empty
value; a field that may be empty needs it. Anything else that begins with `{{` is refused when a
message is saved, or subscribers would see it in the email. To show two braces, HTML uses
`&#123;&#123;`.

A subject may contain all of them but links.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from datetime import date
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.audience.field_types import FieldType, FieldValue
from postroom.domain.audience.fields import BUILT_IN
from postroom.domain.errors import Invalid
from postroom.mail.personal.content_conditions import conditions_in, find_markers, values_of
from postroom.mail.personal.positions import position_of


class CommonField(StrEnum):
    """Fields that every email has, whatever its list is."""

    EMAIL = "email"
    UNSUBSCRIBE_URL = "unsubscribe_url"
    PREFERENCES_URL = "preferences_url"
    WEB_URL = "web_url"
    LIST_DESCRIPTION = "list_description"


class FieldRule(msgspec.Struct, frozen=True):
    """What a field may be used for."""

    is_link: bool = False
    may_be_empty: bool = False
    type: FieldType | None = None
    """For conditions; a field without one cannot be compared."""


OWN_RULES: Final[Mapping[str, FieldRule]] = {
    CommonField.EMAIL: FieldRule(type=FieldType.TEXT),
    CommonField.UNSUBSCRIBE_URL: FieldRule(is_link=True),
    CommonField.PREFERENCES_URL: FieldRule(is_link=True),
    CommonField.WEB_URL: FieldRule(is_link=True),
    CommonField.LIST_DESCRIPTION: FieldRule(),  # a list without one is shown by its name
}

RULES: Final[Mapping[str, FieldRule]] = {
    **OWN_RULES,
    "joined": FieldRule(type=FieldType.DATE),
    **{name: FieldRule(may_be_empty=True, type=each.type) for name, each in BUILT_IN.items()},
}
"""The fields of every list."""


class Columns(msgspec.Struct, frozen=True):
    """What differs between the recipients of a message, apart from their addresses and links: the
    fields of the list that it merges, and its conditions. The values of a recipient are in this
    order."""

    fields: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return self.fields + self.conditions


NO_COLUMNS: Final = Columns()


class Personal(msgspec.Struct, frozen=True):
    """The merge fields of a list, and what they say for one person: as an email shows them, and as
    conditions compare them."""

    rules: Mapping[str, FieldRule]
    values: Mapping[str, str] = {}
    compared: Mapping[str, FieldValue] = {}

    def of(self, columns: Columns, today: date) -> tuple[str, ...]:
        """Return the values of this person."""
        fields = tuple(self.values.get(name, "") for name in columns.fields)
        return fields + values_of(columns.conditions, self.compared, today)


ANYBODY: Final = Personal(RULES)


class _AnyField(Mapping[str, FieldRule]):
    """Accepts every name, where it is checked elsewhere."""

    def __getitem__(self, name: str) -> FieldRule:
        return FieldRule()

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


ANY_FIELD: Final = _AnyField()

# An editor may have written the quotes as entities, or as typographic quotes.
_QUOTED: Final = (
    r'"[^"{}\r\n]*+"|\'[^\'{}\r\n]*+\'|“[^“”{}\r\n]*+”'
    r"|&(?:quot|#34);(?:(?!&(?:quot|#34);)[^{}\"\r\n])*+&(?:quot|#34);"
)
FIELD: Final = re.compile(
    r"\{\{[ \t]*+([A-Za-z][A-Za-z0-9_]{0,99})[ \t]*+"
    rf"(?:\|[ \t]*+default[ \t]*+:[ \t]*+({_QUOTED})[ \t]*+)?\}}\}}"
)
"""A well-formed merge field, known or not: its name, and its default in quotes."""

_LOOKS_LIKE_ONE = re.compile(r"\{\{(?:([^{}\r\n]{0,300})(\}\})?)?")
_LONGEST_SHOWN = 40


class MergeField(msgspec.Struct, frozen=True, gc=False):
    """A merge field as it was written, with its place in the text."""

    name: str
    default: str | None
    start: int
    end: int


def find_fields(
    field: str, text: str, rules: Mapping[str, FieldRule] = RULES
) -> Iterator[MergeField]:
    """Yield the merge fields in order. `Invalid` for the first that is unknown or malformed, may be
    empty and has no default, or is a link in the subject."""
    allowed = allowed_fields(field, rules)
    done = 0
    while (start := text.find("{{", done)) >= 0:
        found = FIELD.match(text, start)
        if found is None or found[1] not in allowed:
            raise Invalid(field, f"{position_of(text, start)}: {_problem(text, start, allowed)}")
        default = None if found[2] is None else unquoted(found[2])
        if default is None and allowed[found[1]].may_be_empty:
            raise Invalid(
                field,
                f"{position_of(text, start)}: {{{{ {found[1]} }}}} may be empty: write"
                f' {{{{ {found[1]} | default: "…" }}}}',
            )
        yield MergeField(found[1], default, start, found.end())
        done = found.end()


def allowed_fields(field: str, rules: Mapping[str, FieldRule] = RULES) -> Mapping[str, FieldRule]:
    """Return the fields that may be used there: links are for bodies."""
    if field not in ("subject", "preheader") or rules is ANY_FIELD:
        return rules
    return {name: rule for name, rule in rules.items() if not rule.is_link}


def check_fields(field: str, text: str, rules: Mapping[str, FieldRule] = RULES) -> None:
    """Raise `Invalid` for the first merge field that cannot be used, and for the first
    condition."""
    for _ in find_fields(field, text, rules):
        pass
    find_markers(field, text, compared_types(rules))


def compared_types(rules: Mapping[str, FieldRule]) -> Mapping[str, FieldType] | None:
    """Return the types of the fields that conditions may compare; None if any field is accepted."""
    if rules is ANY_FIELD:
        return None
    return {name: rule.type for name, rule in rules.items() if rule.type is not None}


def columns_in(*texts: str | None) -> Columns:
    """Return the fields of each recipient that the texts of a message need. `Invalid`."""
    return Columns(list_fields_in(*texts), conditions_in(*texts))


def list_fields_in(*texts: str | None) -> tuple[str, ...]:
    """Return the names of the list's fields in some texts, each once."""
    found = (each[1] for text in texts if text for each in FIELD.finditer(text))
    return tuple(dict.fromkeys(name for name in found if name not in OWN_RULES))


def with_quotes_escaped(document: str) -> str:
    """Return HTML in which no quotes of a default can end an attribute's value."""
    if "default" not in document:
        return document
    return FIELD.sub(
        lambda found: (
            found[0].replace('"', "&quot;").replace("'", "&quot;") if found[2] else found[0]
        ),
        document,
    )


def unquoted(quoted: str) -> str:
    """Return a default without its quotes."""
    return html.unescape(quoted)[1:-1]


def _problem(text: str, start: int, allowed: Mapping[str, FieldRule]) -> str:
    found = _LOOKS_LIKE_ONE.match(text, start)
    written, closed = (found[1] or "", found[2]) if found else ("", None)
    shown = _shown(written)
    if closed is None:
        return f"the merge field '{{{{ {shown}' is not closed with '}}}}'"
    name, bar, _ = written.partition("|")
    if bar and name.strip() in allowed:
        return f'{{{{ {shown} }}}} must look like {{{{ {name.strip()} | default: "there" }}}}'
    known = ", ".join(f"{{{{ {each} }}}}" for each in allowed)
    return f"there is no merge field {{{{ {shown} }}}} here, only {known}"


def _shown(name: str) -> str:
    """Return what the author wrote, on one line and shortened."""
    words = "".join(each if each.isprintable() else " " for each in name).split()
    short = " ".join(words)
    return short if len(short) <= _LONGEST_SHOWN else f"{short[:_LONGEST_SHOWN]}…"
