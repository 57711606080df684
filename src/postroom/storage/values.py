"""Property values: which types there are, and what is refused the same way on every engine."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from postroom.storage import limits
from postroom.storage.errors import InvalidName, InvalidValue, TooLarge

Value: TypeAlias = str | int | float | bool | datetime | bytes
Properties: TypeAlias = Mapping[str, Value]

_PROPERTY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_RESERVED = {"partitionkey", "rowkey", "timestamp", "etag"}
_TYPES = frozenset({str, int, float, bool, datetime, bytes})
_TEXT = frozenset({str})
_FEW_PROPERTIES = 50  # with little text: far from the limit of an entity
_INTEGERS = range(-(2**63), 2**63)

# Names that were found valid: a limited number, so that ever new names do not fill the memory.
_names_seen: set[str] = set()
_NAMES_REMEMBERED = 10_000


def check_property_name(name: str) -> None:
    """Letters, digits and `_`: what every engine can keep, and a filter can name unquoted."""
    if not isinstance(name, str) or not _PROPERTY_NAME.fullmatch(name):
        raise InvalidName(
            f"property {name!r}: a name has 1 to 255 letters, digits or _ and starts with no digit"
        )
    if name.lower() in _RESERVED:
        raise InvalidName(f"property {name!r}: this name belongs to the store")


def check_value(name: str, value: Value) -> None:
    """Exactly one of the six types, and within its range. Subclasses (enums) are not guessed at."""
    if type(value) not in _TYPES:
        raise InvalidValue(
            f"{name}: a value is text, integer, float, boolean, timestamp or bytes,"
            f" not {type(value).__name__}"
        )
    if isinstance(value, str):
        check_text(name, value)
    elif isinstance(value, int):  # True and False are integers, too, and always fit
        if value not in _INTEGERS:
            raise InvalidValue(f"{name}: {value} does not fit into 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue(f"{name}: {value} is not a number that can be stored")
    elif isinstance(value, datetime):
        _check_timestamp(name, value)
    elif len(value) > limits.PROPERTY_BYTES:
        raise TooLarge(f"{name}: {len(value):,} bytes, over the limit of {limits.PROPERTY_BYTES:,}")


def check_text(name: str, text: str, most: int = limits.PROPERTY_BYTES) -> None:
    """Text that is valid Unicode without NUL (PostgreSQL keeps none) and not too long."""
    if "\0" in text:
        raise InvalidValue(f"{name}: text cannot contain the NUL character")
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as exc:
            raise InvalidValue(f"{name}: text contains half a surrogate pair") from exc
    if size > most:
        raise TooLarge(f"{name}: {size:,} bytes of text, over the limit of {most:,}")


def check_properties(properties: Properties) -> int:
    """Names, values, their number and their size together; answers the bytes of text and bytes.

    Every entity that is written passes here, so the common case takes a few quick steps: names that
    were seen before, short ASCII text, truth values and moments in UTC.
    """
    if type(properties) is not dict and not isinstance(properties, Mapping):
        raise InvalidValue(f"properties are a mapping, not {type(properties).__name__}")
    if len(properties) > limits.PROPERTIES:
        raise TooLarge(f"{len(properties)} properties, over the limit of {limits.PROPERTIES}")
    if not _names_seen.issuperset(properties):
        _check_names(properties)
    size = 0
    large = False
    for name, value in properties.items():
        if type(value) is str and len(value) <= limits.COMPARABLE_TEXT and value.isascii():
            if "\0" in value:
                check_text(name, value)
            size += len(value)
        elif value is not True and value is not False:
            if type(value) is datetime and value.tzinfo is UTC and value >= limits.EARLIEST:
                continue
            check_value(name, value)
            if isinstance(value, str | bytes):
                size += len(value if isinstance(value, bytes) else value.encode())
                large = True
    # Short properties alone cannot reach the limit, so the common entity is not measured.
    if large and (measured := entity_size(properties)) > limits.ENTITY_BYTES:
        raise TooLarge(
            f"an entity of {measured:,} bytes, over the limit of {limits.ENTITY_BYTES:,}"
        )
    return size


def check_alike(rows: Collection[Mapping[str, str]], shared: Properties) -> int:
    """As `check_properties`, for many entities that share properties and have text of their own.

    A little ASCII text is looked at all at once.
    """
    values = [value for own in rows for value in own.values()]
    if not _TEXT.issuperset(map(type, values)):
        raise InvalidValue("the properties that rows do not share are text")
    names = set[str]().union(*rows)
    if not names.isdisjoint(shared):
        raise InvalidValue("a property is either shared or a row's own")
    _check_names(names)
    if bytes in map(type, shared.values()):
        raise InvalidValue("bytes cannot be shared by rows")
    size = check_properties(shared)
    text = "".join(values)
    if (
        text.isascii()
        and "\0" not in text
        and len(text) <= limits.PROPERTY_BYTES  # all of it: so none is too long, nor an entity
        and len(names) <= _FEW_PROPERTIES
        and len(names) + len(shared) <= limits.PROPERTIES
        and size <= limits.PROPERTY_BYTES
    ):
        return size * len(rows) + len(text)
    return sum(check_properties({**shared, **own}) for own in rows)


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        check_property_name(name)
        if len(_names_seen) < _NAMES_REMEMBERED:
            _names_seen.add(name)


def entity_size(properties: Properties) -> int:
    """What the properties take in Azure's own measure, with both keys at their longest."""
    size = 4 + 2 * (2 * limits.KEY_UNITS)
    for name, value in properties.items():
        size += 8 + 2 * len(name)
        if isinstance(value, str):
            long = len(value) > limits.COMPARABLE_TEXT
            size += 4 + len(value.encode("utf-8" if long else "utf-16-le"))
        elif isinstance(value, bytes):
            size += 4 + len(value)
        else:
            size += 8
    return size


def _check_timestamp(name: str, value: datetime) -> None:
    if value.tzinfo is not UTC and value.utcoffset() is None:
        raise InvalidValue(f"{name}: a timestamp needs a time zone")
    if not limits.EARLIEST <= value <= limits.LATEST:
        raise InvalidValue(
            f"{name}: {value.isoformat()} is not between the years"
            f" {limits.EARLIEST.year} and {limits.LATEST.year}"
        )
