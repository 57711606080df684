"""Property values as text that people read and type, with the name of their type."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

from postroom.domain.errors import Invalid
from postroom.storage import Value


class Kind(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    BYTES = "bytes"


_LONGEST_NUMBER = 40  # characters; 64 bits need 20


def kind_of(value: Value) -> Kind:
    return _KINDS[type(value)]


def shown(value: Value) -> str:
    """Return the text that `parse_value` parses to this value."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def parse_value(name: str, kind: str, text: str) -> Value:
    """Return the value of a text that a person typed. `Invalid` names the property."""
    try:
        read = _READERS[Kind(kind)]
    except ValueError as exc:
        raise Invalid(name, f"must be one of {', '.join(Kind)}, not {kind[:40]!r}") from exc
    try:
        return read(text)
    except (ValueError, OverflowError) as exc:
        raise Invalid(name, f"must be {_HINTS[Kind(kind)]}, not {text[:40]!r}") from exc


def _text(text: str) -> str:
    return text


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER or not text.strip().lstrip("+-").isascii():
        raise ValueError
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError
    return word == "true"


def _timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(UTC)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as exc:
        raise ValueError from exc


_KINDS: dict[type, Kind] = {
    str: Kind.TEXT,
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    bool: Kind.BOOLEAN,
    datetime: Kind.TIMESTAMP,
    bytes: Kind.BYTES,
}
_READERS: dict[Kind, Callable[[str], Value]] = {
    Kind.TEXT: _text,
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.BOOLEAN: _boolean,
    Kind.TIMESTAMP: _timestamp,
    Kind.BYTES: _bytes,
}
_HINTS: dict[Kind, str] = {
    Kind.TEXT: "any text",
    Kind.INTEGER: "a whole number, as in 42",
    Kind.FLOAT: "a number, as in 1.5",
    Kind.BOOLEAN: "true or false",
    Kind.TIMESTAMP: "a moment with its time zone, as in 2026-11-15T09:00:00Z",
    Kind.BYTES: "bytes in base64, as in aGVsbG8=",
}
