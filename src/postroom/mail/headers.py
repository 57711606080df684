"""Text as a header carries it: ASCII, folded, and never more than the one header.

What cannot stand in a header is refused; what is beyond ASCII, or would be taken for syntax, goes
into encoded words (RFC 2047). An encoded word here has at most 60 characters, so that one fits into
a line (76) behind the longest name of a header that we write; each stands on a line of its own.
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
    """The text, if no software can take a part of it for a line end or for no character at all."""
    found = _FORBIDDEN.search(text)
    if found:
        raise Invalid(field, f"contains a character that is not allowed: U+{ord(found[0]):04X}")
    return text


def unstructured(text: str) -> str:
    """The value of `Subject` and the like."""
    if _TOKENS.fullmatch(text) and "=?" not in text:
        return _folded(text.split(" "))
    return encoded_words(text, IN_TEXT)


def mailbox(name: str, address: str) -> str:
    """A display name and an address; also the form of `List-Id`."""
    shown = _phrase(name)
    between = " " if len(shown) + len(address) < _LONGEST_SHORT else FOLD
    return f"{shown}{between}<{address}>"


def date(moment: datetime) -> str:
    """RFC 5322 3.3, in UTC."""
    if moment.tzinfo is None:
        raise Invalid("date", "must have a time zone")
    return format_datetime(moment.astimezone(UTC))


def encoded_words(text: str, safe: frozenset[str]) -> str:
    """The text as encoded words, each of whole characters; readers join them without a gap."""
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
    """How the encoding `q` writes a character."""

    def spell(character: str) -> str:
        if character == " ":
            return "_"
        if character in safe:
            return character
        return "".join(f"={byte:02X}" for byte in character.encode())

    return spell


def _filled(text: str, spell: Callable[[str], str], most: int) -> Iterator[str]:
    """The spelled characters in runs of up to `most` bytes."""
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
        # The name of the header stands before the first line: no more than 16 characters.
        room = _LONGEST_FOLDED_LINE - (16 if len(lines) == 1 else 1)
        if len(lines[-1]) + 1 + len(token) <= room:
            lines[-1] += f" {token}"
        else:
            lines.append(token)
    return FOLD.join(lines)
