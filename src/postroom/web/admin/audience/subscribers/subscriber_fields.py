"""The inputs for a subscriber's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field, Fields, value_text
from postroom.web.requests.visit import Visit

PREFIX: Final = "field_"
_MARK: Final = "fields"
"""A form with this input has all fields; choices of which none is ticked are not sent."""


def labels_of(fields: Fields) -> dict[str, str]:
    """Return the label of each input by its name."""
    return {PREFIX + each.name: each.shown_label for each in fields.all}


def texts_of(fields: Fields, attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each input by its name."""
    return {PREFIX + each.name: value_text(attributes.get(each.name)) for each in fields.all}


def filled(fields: Fields, texts: Mapping[str, str], problems: Mapping[str, str]) -> list[Field]:
    """Return the fields with a text or a mistake; a form folds the others away."""
    inputs = {PREFIX + each.name: each for each in fields.all}
    return [field for name, field in inputs.items() if texts.get(name) or name in problems]


async def given_texts(visit: Visit, fields: Fields) -> dict[str, str]:
    """Return what was entered, by the names of the inputs; nothing if the form has no fields."""
    form = await visit.form()
    if _MARK not in form:
        return {}
    return {PREFIX + each.name: _given(form.getlist(PREFIX + each.name)) for each in fields.all}


def _given(values: list[Any]) -> str:
    return "|".join(each.strip() for each in values if isinstance(each, str))


def parse_texts(fields: Fields, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values to save; None removes one. `Invalid`."""
    entered = {name.removeprefix(PREFIX): text for name, text in texts.items()}
    parsed = fields.parse(entered)
    return {name: parsed.get(name) for name in entered}


def input_of(path: str) -> str:
    """Return the input for the path of a mistake, such as `attributes.city`."""
    return PREFIX + path.removeprefix("attributes.") if path.startswith("attributes.") else path


def ticked(field: Field, text: str) -> list[str]:
    """Return the choices of a field that a text names."""
    named = {each.strip().casefold() for each in text.split("|")}
    return [each for each in field.choices if each.casefold() in named]


INPUT_TYPES: Final = {
    FieldType.INTEGER: "number",
    FieldType.NUMBER: "number",
    FieldType.DATE: "date",
}
