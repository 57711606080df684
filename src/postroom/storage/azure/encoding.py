"""How Azure stores names, queue messages, keys and property values.

Names of queues and leases have 3 to 63 characters of `a-z 0-9 -`. `mail/send` becomes
`pr-mailz2fsend`: letters up to `y` and digits stay, every other byte of the UTF-8 form becomes `z`
and two hexadecimal digits. A name that would get too long becomes `prx-` and the beginning of its
SHA-256 checksum. Two names never collide. The real name is in the metadata, which decide when
queues are listed.

A queue message is base64 of its body, as Storage Explorer shows and writes it. Everything else is a
header before the body: "\\0", a JSON object, "\\0". No body contains NUL, so the two cannot be
confused.

Partition and row keys keep their order, and most of them are readable in Storage Explorer. Azure
forbids `/ \\ # ?` and control characters in keys. `%` and `'` are legal, but get lost in URLs
(Azurite writes to another row if a key contains `',`). And Azure compares UTF-16 code units, so
that U+1F389 (two units from U+D800 on) sorts before U+FFEE, while range queries need the order of
code points. Therefore:

- Each of these characters becomes its predecessor followed by U+FFFD: `/` is `.` + U+FFFD. This
  sorts after everything that begins with the predecessor, and before all that follows it.
- A character from U+E000 on becomes U+FFFC and its number in six hexadecimal digits, so that
  U+FFFD stays the largest that can follow a predecessor.

`names.key_units` computes how long a key becomes.

Property values have their own types: text, booleans, Int64, floats, timestamps and bytes. A text
property has at most 32 Ki characters, so text that filters ignore anyway (`limits.COMPARABLE_TEXT`)
is stored as UTF-8 bytes after a tag. Bytes that happen to begin with a tag get another one. The tag
is part of the value, so a merge changes both at once.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
from azure.data.tables import EdmType, EntityProperty

from postroom.storage import codec, limits
from postroom.storage.contract.tables import Entity
from postroom.storage.values import Properties, Value

PREFIX: Final = "pr"
_READABLE: Final = "pr-"
_HASHED: Final = "prx-"
_LONGEST: Final = 63
_HASH_DIGITS: Final = 48
_REAL_NAME: Final = "postroomname"

_OTHER = re.compile(rb"[^a-y0-9]")
_MARK: Final = "\0"
_HIGHEST: Final = "\ufffd"
_NUMBERED: Final = "\ufffc"
_MAPPED: Final = "#%'/?\\"
_WRITTEN: Final = {character: chr(ord(character) - 1) + _HIGHEST for character in _MAPPED}
_READ: Final = {written: character for character, written in _WRITTEN.items()}

_TO_WRITE = re.compile(r"[#%'/?\\\ue000-\U0010ffff]")
_TO_READ = re.compile(rf"[\"$&.>\[]{_HIGHEST}|{_NUMBERED}[0-9a-f]{{6}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# 0xFF occurs in no UTF-8 text.
_TEXT: Final = b"\xfft:"
_BYTES: Final = b"\xffb:"


def azure_name(name: str) -> str:
    """Return the name of the queue on Azure."""
    escaped = _OTHER.sub(lambda found: b"z%02x" % found[0][0], name.encode()).decode("ascii")
    if len(_READABLE) + len(escaped) <= _LONGEST:
        return _READABLE + escaped
    return _HASHED + hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]


def metadata_of(name: str) -> dict[str, str]:
    """Return the metadata of a queue: its real name. They are HTTP headers, so ASCII only."""
    return {_REAL_NAME: quote(name, safe="")}


def real_name(azure: str, metadata: Mapping[str, str] | None) -> str | None:
    """Return the real name of a queue in the account; None if it is not one of ours."""
    quoted = (metadata or {}).get(_REAL_NAME)
    if quoted is None:
        return None
    name = unquote(quoted)
    return name if azure_name(name) == azure else None


class _Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """`uncounted` is the number of receives that were released without counting; Azure counts them.
    `enqueued_at` is when a message was put that was moved here from another queue."""

    properties: dict[str, str] = {}
    uncounted: int = 0
    enqueued_at: datetime | None = None


class Envelope(msgspec.Struct, frozen=True):
    body: str
    properties: Mapping[str, str]
    uncounted: int = 0
    enqueued_at: datetime | None = None


_header = msgspec.json.Decoder(_Header)


def wrap(envelope: Envelope) -> str:
    """Return the content of the message on Azure."""
    text = envelope.body
    if envelope.properties or envelope.uncounted or envelope.enqueued_at:
        header = _Header(dict(envelope.properties), envelope.uncounted, envelope.enqueued_at)
        text = f"{_MARK}{msgspec.json.encode(header).decode()}{_MARK}{text}"
    return b64encode(text.encode()).decode("ascii")


def unwrap(content: str) -> Envelope:
    """Return what was given to `wrap`. A message that another program wrote is only a body."""
    try:
        text = b64decode(content, validate=True).decode()
    except (binascii.Error, ValueError):
        return Envelope(content, {})
    if not text.startswith(_MARK):
        return Envelope(text, {})
    header, _, body = text[1:].partition(_MARK)
    try:
        known = _header.decode(header)
    except msgspec.MsgspecError:
        return Envelope(text, {})
    return Envelope(body, known.properties, known.uncounted, known.enqueued_at)


def encode_key(key: str) -> str:
    """Return the key as Azure stores it."""
    return _TO_WRITE.sub(_write_character, key)


def decode_key(kept: str) -> str:
    """Return the key that was given to `encode_key`; keys of other programs are unchanged."""
    return _TO_READ.sub(_read_character, kept)


def encode_bound(bound: str) -> tuple[str, bool]:
    """Return the bound of a range for comparison with stored keys, and whether a key can equal it.

    No key contains a control character, so a bound is cut there and continues with the next
    printable character. No key is longer than `limits.KEY_UNITS`, so the rest does not matter.
    """
    possible = True
    if control := _CONTROL.search(bound):
        bound = bound[: control.start()] + (" " if control[0] < " " else "\xa0")
        possible = False
    return encode_key(bound)[: limits.KEY_UNITS + 1], possible


def _write_character(found: re.Match[str]) -> str:
    character = found[0]
    return _WRITTEN.get(character) or f"{_NUMBERED}{ord(character):06x}"


def _read_character(found: re.Match[str]) -> str:
    written = found[0]
    if written in _READ:
        return _READ[written]
    number = int(written[1:], 16)
    return chr(number) if number <= 0x10FFFF else written


def written_entity(partition: str, row: str, properties: Properties) -> dict[str, Any]:
    """Return the entity in the form of the SDK."""
    return {
        "PartitionKey": encode_key(partition),
        "RowKey": encode_key(row),
        **{name: _written(value) for name, value in properties.items()},
    }


def read_entity(found: Mapping[str, Any], etag: str) -> Entity:
    """Return an entity of the SDK in the form of the contract."""
    properties = {name: _read(value) for name, value in found.items()}
    partition, row = properties.pop("PartitionKey"), properties.pop("RowKey")
    return Entity(decode_key(str(partition)), decode_key(str(row)), properties, etag)


def written_timestamp(value: datetime) -> str:
    return str(codec.written_as(value))


def _written(value: Value) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limits.COMPARABLE_TEXT else _TEXT + value.encode()
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return EntityProperty(value, EdmType.INT64)
    if isinstance(value, datetime):
        return EntityProperty(written_timestamp(value), EdmType.DATETIME)
    return _BYTES + value if value.startswith((_TEXT, _BYTES)) else value


def _read(value: Any) -> Value:
    """Return the plain value. Types that only other programs write (Int32, GUID) are converted."""
    if isinstance(value, EntityProperty):
        value = value.value
    if type(value) in (str, int, float, bool):
        plain: Value = value
        return plain
    if isinstance(value, datetime):
        return datetime.combine(value.date(), value.time(), UTC)
    if isinstance(value, bytes):
        if value.startswith(_TEXT):
            return value.removeprefix(_TEXT).decode()
        return value.removeprefix(_BYTES)
    return str(value)
