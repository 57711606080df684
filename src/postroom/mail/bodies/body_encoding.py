"""Bodies in a transfer encoding into which values can be inserted afterwards.

A body consists of segments: static text, and slots for what differs between recipients. In
quoted-printable every slot is alone on its line, between two soft line breaks, which email programs
remove. So the static text around it is encoded once, whatever the value is:

    Hello =
    anna@example.com=
    , welcome!

No line begins with a dot or with `From `: these are written `=2E` and `=46`. So SMTP has no dot to
double (RFC 5321 4.5.2), and no mailbox format adds a `>`. A body stays as it is (7bit) if it is
ASCII in short lines that need none of this.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from postroom.mail.personal.slots import BranchSlot, Pieces, Segments, Slot

LONGEST_LINE: Final = 76  # RFC 2045 6.7 (5), without the line end
LONGEST_VALUE: Final = LONGEST_LINE - 1  # less the soft line break
LONGEST_GUID: Final = 64
_ASCII_SLOTS: Final = (Slot.GUID, Slot.LINK_TOKEN)  # whose values are at most this long

# RFC 5322 2.1.1 demands 998 and recommends 78. Links are longer than that and are best left whole;
# 500 is safe with relays that are too strict.
_LONGEST_PLAIN_LINE: Final = 500

_PLAIN = re.compile(r"[\t\n -~]*")
_NEEDS_QUOTING = re.compile(rf"^(?:\.|From |.{{{_LONGEST_PLAIN_LINE + 1}}})|[ \t]$", re.MULTILINE)
_AWKWARD = re.compile(rb"^(?:\.|From |.{%d})[^\n]*" % (LONGEST_LINE + 1), re.MULTILINE)


def _fits_7bit(segments: Segments) -> bool:
    """Return whether the body needs no encoding. Addresses may be beyond ASCII, so it has none."""
    text = "".join(
        "x" * LONGEST_GUID if each in _ASCII_SLOTS else each if isinstance(each, str) else "\0"
        for each in segments
    )
    return bool(_PLAIN.fullmatch(text)) and not _NEEDS_QUOTING.search(text)


def _as_7bit(segments: Segments) -> Pieces:
    return [
        each if not isinstance(each, str) else each.replace("\n", "\r\n").encode("ascii")
        for each in segments
    ]


def _as_quoted_printable(segments: Segments) -> Pieces:
    """Encode static text, and put each slot between soft line breaks unless a line ends there. A
    marker is at the beginning of a line, too, so each part can be left out."""
    pieces: Pieces = []
    for position, each in enumerate(segments):
        following = segments[position + 1] if position + 1 < len(segments) else "\n"
        if isinstance(each, BranchSlot):
            pieces.append(each)
        elif not isinstance(each, str):
            pieces.append(each)
            if not isinstance(following, str) or not following.startswith("\n"):
                pieces.append(b"=\r\n")
        else:
            pieces.append(quoted(each))
            if not isinstance(following, str) and not each.endswith("\n"):
                pieces.append(b"=\r\n")
    return pieces


def quoted(text: str) -> bytes:
    """Return text with `\\n` at its line ends in quoted-printable. It must begin a line and be
    followed by a line end or a soft line break."""
    encoded = binascii.b2a_qp(text.encode(), istext=True)
    encoded = _AWKWARD.sub(lambda line: _refolded(line[0]), encoded)
    start_of_last = encoded.rfind(b"\n") + 1
    if len(encoded) - start_of_last > LONGEST_VALUE:
        encoded = encoded[:start_of_last] + _split(encoded[start_of_last:])
    return encoded.replace(b"\n", b"\r\n")


def _refolded(line: bytes) -> bytes:
    """Escape a dangerous beginning and keep the limit, which Python's encoder exceeds by two where
    a space at the end of a line becomes `=20`."""
    if line.startswith((b".", b"From ")):
        line = b"=%02X%b" % (line[0], line[1:])
    return line if len(line) <= LONGEST_LINE else _split(line)


def _split(line: bytes) -> bytes:
    """Split a line in two, never within an escape such as `=C3`."""
    cut = LONGEST_LINE - 4
    while b"=" in line[cut - 2 : cut]:
        cut -= 1
    return line[:cut] + b"=\n" + _refolded(line[cut:])


class BodyPart(msgspec.Struct, frozen=True):
    """A body with slots; each of its lines ends with `\\n`, the last one, too."""

    media_type: str
    segments: Segments


def mime_content(parts: Sequence[BodyPart]) -> Pieces:
    """Return everything from `Content-Type` to the end of the mail: one part, or alternatives of
    of which email programs show the last one that they can."""
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


def _encoded(part: BodyPart) -> Pieces:
    if _fits_7bit(part.segments):
        name, body = b"7bit", _as_7bit(part.segments)
    else:
        name, body = b"quoted-printable", _as_quoted_printable(part.segments)
    head = (
        f'Content-Type: {part.media_type}; charset="utf-8"\r\nContent-Transfer-Encoding: '
    ).encode("ascii")
    return [head + name + b"\r\n\r\n", *body]


def _boundary(parts: Sequence[Pieces]) -> bytes:
    """Return a boundary that occurs in no part, always the same for the same parts.

    `=_` occurs neither in quoted-printable nor in any inserted value; 7bit parts are searched.
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
