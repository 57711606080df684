"""The values of fields as emails show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldValue
from postroom.domain.audience.fields import Fields


def field_texts(
    fields: Fields,
    names: Iterable[str],
    address: Address,
    joined: datetime,
    attributes: Mapping[str, Any],
) -> tuple[str, ...]:
    """Return the values of some fields of a subscriber. The default of a field stands for a missing
    value; without one, the text is empty."""
    known = fields.values(address, joined, attributes)
    found = []
    for name in names:
        field = fields.get(name)
        value = known.get(name if field is None else field.name)
        if field is not None and value in (None, "", []):
            value = field.default
        found.append(shown_value(value))
    return tuple(found)


def shown_value(value: FieldValue) -> str:
    """Return a value as people read it."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float() if value.is_integer():
            return str(int(value))
        case list() | tuple():
            return ", ".join(value)
        case _:
            return str(value)
