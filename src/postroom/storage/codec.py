"""Properties as one JSON object, for the engines that keep them so.

Text, integers and booleans are JSON's own. Floats, timestamps and bytes are written as a number,
as ISO 8601 in UTC with microseconds (so that text order is time order) and as base64; what they are
stands beside them under the key `@`, which no property can have:

    {"Verified": true, "SeenAt": "2026-11-15T07:28:20.000000Z", "@": {"SeenAt": "t"}}

So an operator reads and queries plain values with SQL, and every type comes back as it was.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from postroom.storage.values import Properties, Value

S = TypeVar("S", bound=msgspec.Struct)

TYPES: Final = "@"
FLOAT: Final = "f"
TIMESTAMP: Final = "t"
BYTES: Final = "b"

_TAGS: dict[type, str] = {float: FLOAT, datetime: TIMESTAMP, bytes: BYTES}
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def encode(properties: Properties) -> str:
    """The JSON text of properties that were checked before."""
    written: dict[str, object] = {}
    types: dict[str, str] = {}
    for name, value in properties.items():
        tag = _TAGS.get(type(value))
        if tag is not None:
            types[name] = tag
            written[name] = written_as(value)
    if not types:
        return _encoder.encode(properties).decode()
    return _encoder.encode({**properties, **written, TYPES: types}).decode()


def encode_alike(rows: Mapping[str, Mapping[str, str]], shared: Properties) -> dict[str, str]:
    """The JSON texts of rows that share properties and have text of their own."""
    own = {row: _encoder.encode(properties).decode() for row, properties in rows.items()}
    if not shared:
        return own
    rest = encode(shared)
    return {row: rest if text == "{}" else f"{text[:-1]},{rest[1:]}" for row, text in own.items()}


def decode(text: str | bytes) -> dict[str, Value]:
    """The properties that `encode` wrote."""
    return restored(_decoder.decode(text))


@lru_cache(maxsize=64)
def decoder(kind: type[S]) -> msgspec.json.Decoder[S]:
    """Reads what `encode` wrote as a struct, whose types tell what the tags would."""
    return msgspec.json.Decoder(kind)


@lru_cache(maxsize=64)
def rows_decoder(kind: type[S]) -> msgspec.json.Decoder[list[tuple[str, S]]]:
    """The same for a JSON array of pairs: a row's key and its properties."""
    return msgspec.json.Decoder(list[tuple[str, kind]])  # type: ignore[valid-type]


@lru_cache(maxsize=64)
def numbered_rows_decoder(kind: type[S]) -> msgspec.json.Decoder[list[tuple[int, str, S]]]:
    """The same with a number before each pair."""
    return msgspec.json.Decoder(list[tuple[int, str, kind]])  # type: ignore[valid-type]


def restored(properties: dict[str, Any]) -> dict[str, Value]:
    """The same from JSON that was read already, in place: each value in its own type again."""
    types = properties.pop(TYPES, None)
    if types:
        for name, tag in types.items():
            properties[name] = _read_as(tag, properties[name])
    return properties


def written_as(value: Value) -> str | int | float | bool:
    """The JSON value; a filter compares with the same."""
    if isinstance(value, datetime):
        return _text_of(value if value.tzinfo is UTC else value.astimezone(UTC))
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return value


@lru_cache(maxsize=256)
def _text_of(moment: datetime) -> str:
    """Remembered, because rows that are written together often carry the same moment.

    Only ever asked for UTC: in other zones two different moments can be equal (`fold`).
    """
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _read_as(tag: str, written: Any) -> Value:
    if tag == TIMESTAMP:
        return datetime.fromisoformat(written)
    if tag == FLOAT:
        return float(written)
    if tag == BYTES:
        return b64decode(written)
    raise ValueError(f"unknown property type {tag!r}")
