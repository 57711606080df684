"""The values of fields as emails show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldValue
from postroom.domain.audience.fields import Fields


@lru_cache(maxsize=64)
def stored_texts(names: tuple[str, ...]) -> Callable[[str], tuple[str, ...] | None]:
    """Return a function that reads the values of some text fields from stored attributes. It
    returns None if one is missing or not text: `field_texts` knows what to show then.

    Both return the same, but this takes half the time, and runs for each recipient of a message.
    """
    stored = {f"value{number}": name for number, name in enumerate(names)}
    row = msgspec.defstruct("Texts", [(each, str, "") for each in stored], rename=stored)
    decode, values_of = msgspec.json.Decoder(row).decode, msgspec.structs.astuple

    def read(attributes: str) -> tuple[str, ...] | None:
        try:
            values: tuple[str, ...] = values_of(decode(attributes))
        except msgspec.DecodeError:
            return None
        return None if "" in values else values

    return read


def field_texts(
    fields: Fields,
    names: Sequence[str],
    address: Address,
    joined: datetime,
    attributes: Mapping[str, Any],
) -> tuple[str, ...]:
    """Return the values of some fields of a subscriber. The default of a field stands for a missing
    value; without one, the text is empty."""
    found: list[str] = []
    texts = fields.texts
    for name in names:  # most values are texts, and this runs for each recipient of a message
        value = attributes.get(name)
        if type(value) is not str or not value or name not in texts:
            break
        found.append(value)
    else:
        return tuple(found)
    known = fields.values(address, joined, attributes)
    found.clear()
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
