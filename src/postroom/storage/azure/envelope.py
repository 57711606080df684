"""A queue message as Azure keeps it: base64 of the body, as Storage Explorer shows and writes it.

What the body alone cannot say stands before it: "\\0", a JSON object, "\\0", body. No body contains
NUL, so the two cannot be confused.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

_MARK: Final = "\0"


class _Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """`uncounted` receives were given back without counting; Azure counts them all the same.
    `enqueued_at` is when a message was put that came here from another queue."""

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
    """The content of the message at Azure."""
    text = envelope.body
    if envelope.properties or envelope.uncounted or envelope.enqueued_at:
        header = _Header(dict(envelope.properties), envelope.uncounted, envelope.enqueued_at)
        text = f"{_MARK}{msgspec.json.encode(header).decode()}{_MARK}{text}"
    return b64encode(text.encode()).decode("ascii")


def unwrap(content: str) -> Envelope:
    """What `wrap` was given. What another program wrote in another way is a body as it is."""
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
