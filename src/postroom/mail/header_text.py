"""Text in headers: ASCII, folded, and never more than one header.

Text beyond ASCII, or with syntax in it, becomes encoded words (RFC 2047). An encoded word has at
most 60 characters, so that it fits into a line (76) after the longest header name; each is
on a separate line.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from postroom.domain.errors import Invalid

FOLD: Final = "\r\n "
LONGEST_ENCODED: Final = 48  # of the text in an encoded word: 60 less `=?utf-8?q?` and `?=`

_LONGEST_SHORT = 60
_LONGEST_FOLDED_LINE = 76
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TOKENS = re.compile(r"[!-~]{1,60}(?: [!-~]{1,60})*")
_ATOMS = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(?: [\w!#$%&'*+/=?^`{|}~-]+)*", re.ASCII)

_ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
IN_PHRASE: Final = frozenset(_ALNUM + "!*+-/")  # RFC 2047 5 (3)
IN_TEXT: Final = frozenset(map(chr, range(0x21, 0x7F))) - frozenset("=?_")  # RFC 2047 5 (1)


def checked(field: str, text: str) -> str:
    """Return the text; raise `Invalid` if it contains line ends, controls or half characters."""
    found = _FORBIDDEN.search(text)
    if found:
        raise Invalid(field, f"contains a character that is not allowed: U+{ord(found[0]):04X}")
    return text


def unstructured(text: str) -> str:
    """Return the value of `Subject` and similar headers."""
    if _TOKENS.fullmatch(text) and "=?" not in text:
        return _folded(text.split(" "))
    return encoded_words(text, IN_TEXT)


def mailbox(name: str, address: str) -> str:
    """Return a display name with an address; `List-Id` has the same form."""
    shown = _phrase(name)
    between = " " if len(shown) + len(address) < _LONGEST_SHORT else FOLD
    return f"{shown}{between}<{address}>"


def date(moment: datetime) -> str:
    """Return the value of `Date` (RFC 5322 3.3), in UTC."""
    if moment.tzinfo is None:
        raise Invalid("date", "must have a time zone")
    return format_datetime(moment.astimezone(UTC))


def encoded_words(text: str, safe: frozenset[str]) -> str:
    """Return the text as encoded words of whole characters; email programs join them seamlessly."""
    encoded = text.encode()
    spelled = sum(1 if chr(byte) in safe else 3 for byte in encoded)
    if spelled <= len(encoded) * 4 / 3:
        words = (f"=?utf-8?q?{each}?=" for each in _filled(text, _spelled(safe), LONGEST_ENCODED))
    else:
        most = LONGEST_ENCODED * 3 // 4
        words = (
            f"=?utf-8?b?{b64encode(each.encode()).decode('ascii')}?="
            for each in _filled(text, str, most)
        )
    return FOLD.join(words)


def _spelled(safe: frozenset[str]) -> Callable[[str], str]:
    """Return a function that writes a character in the encoding `q`."""

    def spell(character: str) -> str:
        if character == " ":
            return "_"
        if character in safe:
            return character
        return "".join(f"={byte:02X}" for byte in character.encode())

    return spell


def _filled(text: str, spell: Callable[[str], str], most: int) -> Iterator[str]:
    """Yield the spelled characters in runs of up to `most` bytes."""
    run: list[str] = []
    length = 0
    for character in map(spell, text):
        added = len(character.encode())
        if length + added > most:
            yield "".join(run)
            run, length = [], 0
        run.append(character)
        length += added
    yield "".join(run)


def _phrase(text: str) -> str:
    if len(text) <= _LONGEST_SHORT and "=?" not in text and text == " ".join(text.split()):
        if _ATOMS.fullmatch(text):
            return text
        if text.isascii():
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
    return encoded_words(text, IN_PHRASE)


def _folded(tokens: list[str]) -> str:
    lines = [tokens[0]]
    for token in tokens[1:]:
        # The first line begins with the header's name: at most 16 characters.
        room = _LONGEST_FOLDED_LINE - (16 if len(lines) == 1 else 1)
        if len(lines[-1]) + 1 + len(token) <= room:
            lines[-1] += f" {token}"
        else:
            lines.append(token)
    return FOLD.join(lines)
