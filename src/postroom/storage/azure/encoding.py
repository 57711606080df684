"""How Azure stores names and messages of queues.

Names, including those of leases, have 3 to 63 characters of `a-z 0-9 -`. `mail/send` becomes
`pr-mailz2fsend`: letters up to `y` and digits stay, every other byte of the UTF-8 form becomes `z`
and two hexadecimal digits. A name that would get too long becomes `prx-` and the beginning of its
SHA-256 checksum. Two names never collide. The real name is in the metadata, which decide when
queues are listed.

A message is base64 of its body, as Storage Explorer shows and writes it. Everything else is a
header before the body: "\\0", a JSON object, "\\0". No body contains NUL, so the two cannot be
confused.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

import msgspec

PREFIX: Final = "pr"
_READABLE: Final = "pr-"
_HASHED: Final = "prx-"
_LONGEST: Final = 63
_HASH_DIGITS: Final = 48
_REAL_NAME: Final = "postroomname"

_OTHER = re.compile(rb"[^a-y0-9]")
_MARK: Final = "\0"


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
