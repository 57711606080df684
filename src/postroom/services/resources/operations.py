"""Events and rows of the store as JSON, and values of properties as text that people can edit."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from postroom.domain.errors import Invalid
from postroom.services.events import Event
from postroom.services.resources import Resource, Time, describe_time
from postroom.storage import Entity, Value


class EventResource(Resource, frozen=True):
    """Something that Postroom did or noticed on its own."""

    at: Time
    severity: str
    part: str
    text: str
    subject: str | None


def describe_event(event: Event) -> EventResource:
    return EventResource(
        at=describe_time(event.at),
        severity=event.severity.value,
        part=event.part,
        text=event.text,
        subject=event.subject or None,
    )


class RowResource(Resource, frozen=True):
    """A row of a table. Times and bytes, which JSON does not have, are text."""

    partition: str
    row: str
    properties: dict[str, Any]
    etag: str


def describe_row(entity: Entity) -> RowResource:
    return RowResource(
        partition=entity.partition,
        row=entity.row,
        properties={
            name: show_value(value) if isinstance(value, bytes | datetime) else value
            for name, value in entity.properties.items()
        },
        etag=entity.etag,
    )


class ValueKind(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    BYTES = "bytes"


_LONGEST_NUMBER = 40  # characters; 64 bits need 20


def kind_of(value: Value) -> ValueKind:
    return _KINDS[type(value)]


def show_value(value: Value) -> str:
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
        read = _READERS[ValueKind(kind)]
    except ValueError as exc:
        raise Invalid(name, f"must be one of {', '.join(ValueKind)}, not {kind[:40]!r}") from exc
    try:
        return read(text)
    except (ValueError, OverflowError) as exc:
        raise Invalid(name, f"must be {_HINTS[ValueKind(kind)]}, not {text[:40]!r}") from exc


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


_KINDS: dict[type, ValueKind] = {
    str: ValueKind.TEXT,
    int: ValueKind.INTEGER,
    float: ValueKind.FLOAT,
    bool: ValueKind.BOOLEAN,
    datetime: ValueKind.TIMESTAMP,
    bytes: ValueKind.BYTES,
}
_READERS: dict[ValueKind, Callable[[str], Value]] = {
    ValueKind.TEXT: _text,
    ValueKind.INTEGER: _integer,
    ValueKind.FLOAT: _float,
    ValueKind.BOOLEAN: _boolean,
    ValueKind.TIMESTAMP: _timestamp,
    ValueKind.BYTES: _bytes,
}
_HINTS: dict[ValueKind, str] = {
    ValueKind.TEXT: "any text",
    ValueKind.INTEGER: "a whole number, as in 42",
    ValueKind.FLOAT: "a number, as in 1.5",
    ValueKind.BOOLEAN: "true or false",
    ValueKind.TIMESTAMP: "a moment with its time zone, as in 2026-11-15T09:00:00Z",
    ValueKind.BYTES: "bytes in base64, as in aGVsbG8=",
}
