"""Properties as one JSON object beside packed bytes, for the engines that keep them so.

Text, integers and booleans are JSON's own. Floats and timestamps are written as a number and as
ISO 8601 in UTC with microseconds (so that text order is time order); their types stand beside them
under the key `@`, which no property can have:

    {"Verified": true, "SeenAt": "2026-11-15T07:28:20.000000Z", "@": {"SeenAt": "t"}}

So an operator reads and queries plain values with SQL, and every type comes back as it was.

Bytes are kept apart, as one MessagePack map of all of a row's bytes: nobody pays for them who does
not ask for them. Rows of earlier versions have them in the JSON, in base64 with the type `b`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

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
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(dict[str, bytes]).decode


class Encoded(NamedTuple):
    """Properties as they are stored."""

    text: str
    packed: bytes | None = None


def encode(properties: Properties) -> Encoded:
    """Return properties, which were checked before, as they are stored."""
    written: dict[str, object] = {}
    types: dict[str, str] = {}
    binary: dict[str, bytes] = {}
    for name, value in properties.items():
        tag = _TAGS.get(type(value))
        if tag is None:
            continue
        if isinstance(value, bytes):
            binary[name] = value
        else:
            types[name] = tag
            written[name] = written_as(value)
    if binary:
        properties = {name: value for name, value in properties.items() if name not in binary}
    packed = _pack(binary) if binary else None
    if not types:
        return Encoded(_encoder.encode(properties).decode(), packed)
    text = _encoder.encode({**properties, **written, TYPES: types}).decode()
    return Encoded(text, packed)


def encode_alike(rows: Mapping[str, Mapping[str, str]], shared: Properties) -> dict[str, str]:
    """The JSON texts of rows that share properties and have text of their own."""
    own = {row: _encoder.encode(properties).decode() for row, properties in rows.items()}
    if not shared:
        return own
    rest = encode(shared).text
    return {row: rest if text == "{}" else f"{text[:-1]},{rest[1:]}" for row, text in own.items()}


def decode(text: str | bytes, packed: bytes | None = None) -> dict[str, Value]:
    """Return the properties that `encode` wrote."""
    return restored(_decoder.decode(text), packed)


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


def restored(properties: dict[str, Any], packed: bytes | None = None) -> dict[str, Value]:
    """As `decode`, from JSON that was read already, and is changed by this."""
    types = properties.pop(TYPES, None)
    if types:
        for name, tag in types.items():
            properties[name] = _read_as(tag, properties[name])
    if packed is None:
        return properties
    return {**_unpack(packed), **properties}  # `merge_where` does not look at packed bytes


def written_as(value: Value) -> str | int | float | bool:
    """Return the JSON value, which a filter compares with."""
    if isinstance(value, datetime):
        return _text_of(value if value.tzinfo is UTC else value.astimezone(UTC))
    if isinstance(value, bytes):
        raise TypeError("bytes are packed, not written as JSON")
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
