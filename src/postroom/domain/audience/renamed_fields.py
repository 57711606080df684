"""Values of fields that are being renamed: some rows have them under the former name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from postroom.domain.audience.fields import Fields


def former_names(fields: Fields) -> dict[str, str]:
    """Return the former name of each field whose values are being renamed."""
    return {each.name: each.formerly for each in fields.declared if each.formerly}


def without(attributes: Mapping[str, Any], names: Iterable[str], fields: Fields) -> dict[str, Any]:
    """Return attributes without those of these names, or of their former names."""
    given, former = set(names), former_names(fields)
    gone = given | {former[name] for name in given & former.keys()}
    return {name: value for name, value in attributes.items() if name not in gone}
