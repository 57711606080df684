"""The content of a mail: one part, or alternatives of which readers show the last that they can."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from postroom.mail.quoted import Pieces, Slot, as_7bit, as_quoted_printable, fits_7bit


class Part(msgspec.Struct, frozen=True):
    """A body with slots, its lines ending in `\\n`, the last one too."""

    media_type: str
    segments: Sequence[str | Slot]


_END: Final = b"\r\n"


def content(parts: Sequence[Part]) -> Pieces:
    """From `Content-Type` to the end of the mail."""
    encoded = [_encoded(part) for part in parts]
    if len(encoded) == 1:
        return encoded[0]
    boundary = _boundary(encoded)
    pieces: Pieces = [
        b'Content-Type: multipart/alternative;\r\n boundary="%b"\r\n' % boundary,
    ]
    for part in encoded:
        pieces += [b"\r\n--%b\r\n" % boundary, *part]
    return [*pieces, b"\r\n--%b--\r\n" % boundary]


def _encoded(part: Part) -> Pieces:
    if fits_7bit(part.segments):
        name, body = b"7bit", as_7bit(part.segments)
    else:
        name, body = b"quoted-printable", as_quoted_printable(part.segments)
    head = (
        f'Content-Type: {part.media_type}; charset="utf-8"\r\nContent-Transfer-Encoding: '
    ).encode("ascii")
    return [head + name + _END + _END, *body]


def _boundary(parts: Sequence[Pieces]) -> bytes:
    """The same for the same parts, and in none of them.

    `=_` cannot be in quoted-printable, nor in any value that is spliced in; a part in 7bit is
    searched.
    """
    static = [each for part in parts for each in part if isinstance(each, bytes)]
    hashed = hashlib.blake2b(digest_size=12, usedforsecurity=False)
    for each in static:
        hashed.update(each)
    while True:
        boundary = b"=_" + hashed.hexdigest().encode("ascii")
        if not any(boundary in each for each in static):
            return boundary
        hashed.update(boundary)
