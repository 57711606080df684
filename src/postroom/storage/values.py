"""Property values: their types, and checks that are the same for all engines."""

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

# Valid names, for speed. Their number is limited, so that new names cannot fill the memory.
_names_seen: set[str] = set()
_NAMES_REMEMBERED = 10_000


def check_property_name(name: str) -> None:
    """Check for letters, digits and `_`, which every engine and filter supports."""
    if not isinstance(name, str) or not _PROPERTY_NAME.fullmatch(name):
        raise InvalidName(
            f"property {name!r}: a name must have 1 to 255 letters, digits or _ and must not"
            " begin with a digit"
        )
    if name.lower() in _RESERVED:
        raise InvalidName(f"property {name!r}: this name is reserved")


def check_value(name: str, value: Value) -> None:
    """Check for one of the six types, within its range. Subclasses, such as enums, are refused."""
    if type(value) not in _TYPES:
        raise InvalidValue(
            f"{name}: a value must be text, integer, float, boolean, timestamp or bytes,"
            f" not {type(value).__name__}"
        )
    if isinstance(value, str):
        check_text(name, value)
    elif isinstance(value, int):  # True and False are integers, too, and always fit
        if value not in _INTEGERS:
            raise InvalidValue(f"{name}: an integer must fit into 64 bits, not {value}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue(f"{name}: a float must be finite, not {value}")
    elif isinstance(value, datetime):
        _check_timestamp(name, value)
    elif len(value) > limits.PROPERTY_BYTES:
        raise TooLarge(
            f"{name}: must be at most {limits.PROPERTY_BYTES:,} bytes, not {len(value):,}"
        )


def check_text(name: str, text: str, most: int = limits.PROPERTY_BYTES) -> None:
    """Check for valid Unicode of limited length, without NUL, which PostgreSQL cannot store."""
    if "\0" in text:
        raise InvalidValue(f"{name}: text must not contain the NUL character")
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as exc:
            raise InvalidValue(f"{name}: text must not contain half a surrogate pair") from exc
    if size > most:
        raise TooLarge(f"{name}: must have at most {most:,} bytes of text, not {size:,}")


def check_properties(properties: Properties) -> int:
    """Check names, values, their number and size; return the total size of text and bytes.

    Every entity that is written is checked here, so the common case is quick: known names, short
    ASCII text, booleans and timestamps in UTC.
    """
    if type(properties) is not dict and not isinstance(properties, Mapping):
        raise InvalidValue(f"properties must be a mapping, not {type(properties).__name__}")
    if len(properties) > limits.PROPERTIES:
        raise TooLarge(
            f"an entity must have at most {limits.PROPERTIES} properties, not {len(properties)}"
        )
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
    # Short properties alone cannot exceed the limit, so most entities are not measured.
    if large and (measured := entity_size(properties)) > limits.ENTITY_BYTES:
        raise TooLarge(f"an entity must be at most {limits.ENTITY_BYTES:,} bytes, not {measured:,}")
    return size


def check_alike(rows: Collection[Mapping[str, str]], shared: Properties) -> int:
    """Check many entities that share some properties, and whose others are text; return their size.

    Short ASCII texts are checked all at once.
    """
    values = [value for own in rows for value in own.values()]
    if not _TEXT.issuperset(map(type, values)):
        raise InvalidValue("properties that are not shared must be text")
    names = set[str]().union(*rows)
    if not names.isdisjoint(shared):
        raise InvalidValue("a property must be either shared or a row's own")
    _check_names(names)
    if bytes in map(type, shared.values()):
        raise InvalidValue("bytes cannot be shared by rows")
    size = check_properties(shared)
    text = "".join(values)
    if (
        text.isascii()
        and "\0" not in text
        and len(text) <= limits.PROPERTY_BYTES  # the total, so no text and no entity is too long
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
    """Return the size as Azure computes it, with the longest possible keys."""
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
        raise InvalidValue(f"{name}: a timestamp must have a time zone")
    if not limits.EARLIEST <= value <= limits.LATEST:
        raise InvalidValue(
            f"{name}: a timestamp must be between the years {limits.EARLIEST.year} and"
            f" {limits.LATEST.year}, not {value.isoformat()}"
        )


def check_count(what: str, count: int, most: int) -> None:
    if type(count) is not int or not 1 <= count <= most:
        raise InvalidValue(f"{what} must be a whole number from 1 to {most}, not {count!r}")


def check_seconds(what: str, seconds: float, least: float, most: float = math.inf) -> None:
    if type(seconds) not in (int, float) or not least <= seconds <= most or math.isnan(seconds):
        upper = " or more" if most == math.inf else f" to {most:,.0f}"
        raise InvalidValue(f"{what} must be {least:g}{upper} seconds, not {seconds!r}")
