"""Public fields in forms for visitors: how they are named, read, and shown again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field, Fields, check_size
from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import Invalid
from postroom.translations import Translator
from postroom.web.public.visitor import Visitor, printable

PREFIX: Final = "attributes."
"""Of the names of form fields. `Invalid` names the field of a list in the same way."""

_YES, _NO = "yes", "no"


class FieldInput(msgspec.Struct, frozen=True):
    """A field as a form shows it. `chosen` are the values that it has, `problem` says what is wrong
    with them."""

    field: Field
    label: str
    chosen: tuple[str, ...] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        return PREFIX + self.field.name

    @property
    def value(self) -> str:
        return self.chosen[0] if self.chosen else ""


def shown_fields(
    mailing_list: MailingList, fields: Fields, values: Mapping[str, Any] = {}
) -> list[Field]:
    """Return the public fields that a form of a list has. Those for the name are built in: they are
    shown if the list asks for them, or if they have a value."""
    return [
        each
        for each in fields.public
        if each in fields.declared or mailing_list.ask_name or each.name in values
    ]


def shown_inputs(
    fields: Iterable[Field],
    values: Mapping[str, Any],
    _: Translator,
    problems: Mapping[str, str] = {},
) -> list[FieldInput]:
    """Return the inputs of these fields with their values."""
    return [
        FieldInput(
            each,
            label_of(each, _),
            tuple(map(printable, _texts(values.get(each.name)))),
            problems.get(PREFIX + each.name, ""),
        )
        for each in fields
    ]


def typed_values(
    visitor: Visitor, fields: Iterable[Field], *, missing_means_no: bool = False
) -> dict[str, Any]:
    """Return what the form has for these fields: texts, and lists of them. A box that is not ticked
    is not in a form at all: with `missing_means_no`, that means no."""
    typed: dict[str, Any] = {}
    for each in fields:
        values = visitor.form_values(PREFIX + each.name)
        if each.type is FieldType.CHOICES:
            typed[each.name] = values
        elif each.type is FieldType.BOOLEAN and not values:
            typed[each.name] = _NO if missing_means_no else ""
        else:
            typed[each.name] = visitor.text(PREFIX + each.name)
    return typed


def checked_values(
    fields: Fields, typed: Mapping[str, Any], _: Translator
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the attributes that were typed, with None for those that were left empty, and what is
    wrong, by the name of the form field. Too much at once is wrong at the longest entry."""
    attributes: dict[str, Any] = {}
    problems: dict[str, str] = {}
    required = {each.name for each in fields.public if each.required}
    for name, value in typed.items():
        try:
            read = fields.parse if isinstance(value, str) else fields.check
            attributes[name] = read({name: value}).get(name)
        except Invalid:
            problems[PREFIX + name] = _("Please check this entry.")
            continue
        if name in required and attributes[name] is None:
            problems[PREFIX + name] = _("Please fill this in.")
    try:
        check_size({name: value for name, value in attributes.items() if value is not None})
    except Invalid:
        problems |= too_large(typed, _)
    return attributes, problems


def too_large(typed: Mapping[str, Any], _: Translator) -> dict[str, str]:
    """Return the problem with values that are too large together: the longest should change."""
    longest = max(typed, key=lambda name: len(str(typed[name])))
    return {PREFIX + longest: _("Please check this entry.")}


def label_of(field: Field, _: Translator) -> str:
    """Return the label of a field in the language of the texts."""
    if field.name == "first_name":
        return _("First name")
    if field.name == "last_name":
        return _("Last name")
    return field.label_in(_.language)


def _texts(value: Any) -> list[str]:
    match value:
        case None | "":
            return []
        case bool():
            return [_YES if value else _NO]
        case list() | tuple():
            return [str(each) for each in value]
        case _:
            return [str(value)]
