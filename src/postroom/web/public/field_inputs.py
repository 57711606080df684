"""Public fields in forms for visitors: how they are named, read, and shown again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field, Fields, check_size
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.errors import Invalid
from postroom.translations import Translator
from postroom.web.public.visitor import Visitor, printable

PREFIX: Final = "attributes."
"""Of the names of form fields. `Invalid` names the field of a list in the same way."""

Naming: TypeAlias = Callable[[str], str]
"""How the input for a field is named, by the name of the field."""

_YES, _NO = "yes", "no"
_NOT_IN_IDS: Final = re.compile("[^A-Za-z0-9_-]")


def input_name(field_name: str) -> str:
    """Return the name of the input for a field."""
    return PREFIX + field_name


class FieldInput(msgspec.Struct, frozen=True):
    """A field as a form shows it, under the name of its input. `chosen` are the values that it has,
    `problem` says what is wrong with them. `is_required` is for the browser: without it, a required
    field is checked later, because it may not be needed."""

    field: Field
    name: str
    label: str
    chosen: tuple[str, ...] = ()
    problem: str = ""
    is_required: bool = False

    @property
    def id(self) -> str:
        """The id of the element, which has letters, digits, - and _ only, unlike names of lists."""
        name = self.name.removeprefix(PREFIX)
        return "field-" + _NOT_IN_IDS.sub(lambda found: f"_{ord(found[0]):x}_", name)

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
    *,
    named: Naming = input_name,
    is_needed: Callable[[Field], bool] = lambda _: True,
) -> list[FieldInput]:
    """Return the inputs of these fields with their values. The browser insists on required ones, if
    it is certain that they are needed."""
    return [
        FieldInput(
            each,
            named(each.name),
            label_of(each, _),
            tuple(map(printable, _texts(values.get(each.name)))),
            problems.get(named(each.name), ""),
            each.required and is_needed(each),
        )
        for each in fields
    ]


def typed_values(
    visitor: Visitor,
    fields: Iterable[Field],
    *,
    missing_means_no: bool = False,
    named: Naming = input_name,
) -> dict[str, Any]:
    """Return what the form has for these fields: texts, and lists of them. A box that is not ticked
    is not in a form at all: with `missing_means_no`, that means no."""
    typed: dict[str, Any] = {}
    for each in fields:
        name = named(each.name)
        values = visitor.form_values(name)
        if each.type is FieldType.CHOICES:
            typed[each.name] = values
        elif each.type is FieldType.BOOLEAN and not values:
            typed[each.name] = _NO if missing_means_no else ""
        else:
            typed[each.name] = visitor.text(name)
    return typed


def checked_values(
    fields: Fields, typed: Mapping[str, Any], _: Translator, *, named: Naming = input_name
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the attributes that were typed, with None for those that were left empty, and what is
    wrong, by the name of the input. If all of them together are too long, the longest is."""
    attributes: dict[str, Any] = {}
    problems: dict[str, str] = {}
    required = {each.name for each in fields.public if each.required}
    for name, value in typed.items():
        try:
            read = fields.parse if isinstance(value, str) else fields.check
            attributes[name] = read({name: value}).get(name)
        except Invalid:
            problems[named(name)] = _("Please check this entry.")
            continue
        if name in required and attributes[name] is None:
            problems[named(name)] = _("Please fill this in.")
    try:
        check_size({name: value for name, value in attributes.items() if value is not None})
    except Invalid:
        problems |= too_large(typed, _, named=named)
    return attributes, problems


def too_large(
    typed: Mapping[str, Any], _: Translator, *, named: Naming = input_name
) -> dict[str, str]:
    """Return the problem with values that are too large together: the longest should change."""
    longest = max(typed, key=lambda name: len(str(typed[name])))
    return {named(longest): _("Please check this entry.")}


def label_of(field: Field, _: Translator) -> str:
    """Return the label of a field in the language of the texts."""
    has_own_label = field.label not in ("", field.name.replace("_", " ").capitalize())
    if field.name == "first_name" and not has_own_label:
        return _("First name")
    if field.name == "last_name" and not has_own_label:
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
