"""Properties as one JSON object and packed bytes, for SQLite and PostgreSQL, and continuation
tokens.

Text, integers and booleans are plain JSON. Floats and timestamps are written as a number and as
ISO 8601 in UTC with microseconds (so that text order is time order); their types are listed under
the key `@`, which no property can have:

    {"Verified": true, "SeenAt": "2026-11-15T07:28:20.000000Z", "@": {"SeenAt": "t"}}

So operators can read and query plain values with SQL, and every type is preserved.

Bytes are stored separately, as one MessagePack map per row, so that they cost nothing unless they
are read. Rows of earlier versions have them in the JSON, in base64 with the type `b`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from postroom.storage.errors import InvalidValue
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
    """Return the JSON texts of rows that share some properties; the others are text."""
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
    """Return a decoder of what `encode` wrote as a struct, whose types replace the tags."""
    return msgspec.json.Decoder(kind)


@lru_cache(maxsize=64)
def rows_decoder(kind: type[S]) -> msgspec.json.Decoder[list[tuple[str, S]]]:
    """Return a decoder of a JSON array of pairs: the key of a row and its properties."""
    return msgspec.json.Decoder(list[tuple[str, kind]])  # type: ignore[valid-type]


def restored(properties: dict[str, Any], packed: bytes | None = None) -> dict[str, Value]:
    """Return what `decode` returns, from JSON that was already parsed; it is changed in place."""
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
    """Return the text, cached: rows that are written together often have the same time.

    Only for UTC: in other zones, two different moments can be equal (`fold`).
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


def encode_token(*parts: str) -> str:
    """Return the last key of a result as opaque text, which callers pass back to continue."""
    return urlsafe_b64encode(msgspec.json.encode(parts)).decode("ascii").rstrip("=")


def decode_token(token: str, length: int) -> list[str]:
    """Return the parts. `InvalidValue` if this is not a token of this kind."""
    try:
        padded = token + "=" * (-len(token) % 4)
        parts = msgspec.json.decode(urlsafe_b64decode(padded), type=list[str])
    except (binascii.Error, msgspec.MsgspecError, ValueError, TypeError) as exc:
        raise InvalidValue("the continuation token is not one that this store returned") from exc
    if len(parts) != length or any("\0" in part for part in parts):
        raise InvalidValue("the continuation token is not one that this store returned")
    return parts
