"""Bodies in a transfer encoding that lets values be spliced in afterwards.

A body comes as segments: static text, and slots for what differs from recipient to recipient. In
quoted-printable every slot stands on a line of its own, between two soft line breaks, which the
reader's software removes. So the static text around it can be encoded once, whatever the value is:

    Hello =
    anna@example.com=
    , welcome!

No line of ours begins with a dot or with `From `: such a beginning is written `=2E` or `=46`. So
there is nothing for SMTP to double (RFC 5321 4.5.2), and no mailbox format adds a `>`. A body stays
as it is (7bit) if it is ASCII in short lines that need none of this.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final


class Slot(Enum):
    """What is spliced in for each recipient."""

    TO = auto()
    MESSAGE_ID = auto()
    GUID = auto()
    EMAIL_IN_SUBJECT = auto()
    EMAIL_IN_TEXT = auto()
    EMAIL_IN_HTML = auto()


Segments = Sequence[str | Slot]
Pieces = list[bytes | Slot]

LONGEST_LINE: Final = 76  # RFC 2045 6.7 (5), without the line end
LONGEST_VALUE: Final = LONGEST_LINE - 1  # the soft line break takes one
LONGEST_GUID: Final = 64

# RFC 5322 2.1.1 demands 998 and recommends 78. A link is longer than that and is best left whole;
# 500 keeps a distance from relays that are stricter than they should be.
_LONGEST_PLAIN_LINE: Final = 500

_PLAIN = re.compile(r"[\t\n -~]*")
_NEEDS_QUOTING = re.compile(rf"^(?:\.|From |.{{{_LONGEST_PLAIN_LINE + 1}}})|[ \t]$", re.MULTILINE)
_AWKWARD = re.compile(rb"^(?:\.|From |.{%d})[^\n]*" % (LONGEST_LINE + 1), re.MULTILINE)


def fits_7bit(segments: Segments) -> bool:
    """Whether the body can go as it is. An address may be beyond ASCII, so none may be in it."""
    text = "".join(
        "x" * LONGEST_GUID if each is Slot.GUID else "\0" if isinstance(each, Slot) else each
        for each in segments
    )
    return bool(_PLAIN.fullmatch(text)) and not _NEEDS_QUOTING.search(text)


def as_7bit(segments: Segments) -> Pieces:
    return [
        each if isinstance(each, Slot) else each.replace("\n", "\r\n").encode("ascii")
        for each in segments
    ]


def as_quoted_printable(segments: Segments) -> Pieces:
    """Static text encoded, each slot between soft line breaks where there is no other."""
    pieces: Pieces = []
    for position, each in enumerate(segments):
        following = segments[position + 1] if position + 1 < len(segments) else "\n"
        if isinstance(each, Slot):
            pieces.append(each)
            if isinstance(following, Slot) or not following.startswith("\n"):
                pieces.append(b"=\r\n")
        else:
            pieces.append(quoted(each))
            if isinstance(following, Slot) and not each.endswith("\n"):
                pieces.append(b"=\r\n")
    return pieces


def quoted(text: str) -> bytes:
    """Text with `\\n` at its line ends in quoted-printable, made to begin on a fresh line and to be
    followed by a line end or a soft line break."""
    encoded = binascii.b2a_qp(text.encode(), istext=True)
    encoded = _AWKWARD.sub(lambda line: _refolded(line[0]), encoded)
    start_of_last = encoded.rfind(b"\n") + 1
    if len(encoded) - start_of_last > LONGEST_VALUE:
        encoded = encoded[:start_of_last] + _parted(encoded[start_of_last:])
    return encoded.replace(b"\n", b"\r\n")


def _refolded(line: bytes) -> bytes:
    """The line without the beginning that others take for something else, and within its limit:
    Python's encoder exceeds it by two where a space at the end of a line becomes `=20`."""
    if line.startswith((b".", b"From ")):
        line = b"=%02X%b" % (line[0], line[1:])
    return line if len(line) <= LONGEST_LINE else _parted(line)


def _parted(line: bytes) -> bytes:
    """Two lines instead of one, never cut within an escape such as `=C3`."""
    cut = LONGEST_LINE - 4
    while b"=" in line[cut - 2 : cut]:
        cut -= 1
    return line[:cut] + b"=\n" + _refolded(line[cut:])
