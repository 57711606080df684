"""Partition and row keys as Azure Tables stores them: reversible, and in the same order.

Azure forbids `/ \\ # ?` and control characters in keys. `%` and `'` are legal, but get lost in URLs
(Azurite writes to another row if a key contains `',`). And Azure compares UTF-16 code units, so
that U+1F389 (two units from U+D800 on) sorts before U+FFEE, while range queries need the order of
code points. Therefore:

- Each of these characters becomes its predecessor followed by U+FFFD: `/` is `.` + U+FFFD. This
  sorts after everything that begins with the predecessor, and before all that follows it.
- A character from U+E000 on becomes U+FFFC and its number in six hexadecimal digits, so that
  U+FFFD stays the largest that can follow a predecessor.

Everything else, such as an address, a date or a GUID, is readable in Storage Explorer.
`names.key_units` computes how long a key becomes.
"""

from __future__ import annotations

import re
from typing import Final

from postroom.storage import limits

_HIGHEST: Final = "\ufffd"
_NUMBERED: Final = "\ufffc"
_MAPPED: Final = "#%'/?\\"
_WRITTEN: Final = {character: chr(ord(character) - 1) + _HIGHEST for character in _MAPPED}
_READ: Final = {written: character for character, written in _WRITTEN.items()}

_TO_WRITE = re.compile(r"[#%'/?\\\ue000-\U0010ffff]")
_TO_READ = re.compile(rf"[\"$&.>\[]{_HIGHEST}|{_NUMBERED}[0-9a-f]{{6}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def encode(key: str) -> str:
    """Return the key as Azure stores it."""
    return _TO_WRITE.sub(_write, key)


def decode(kept: str) -> str:
    """Return the key that was given to `encode`. Keys of other programs are returned unchanged."""
    return _TO_READ.sub(_read, kept)


def encode_bound(bound: str) -> tuple[str, bool]:
    """Return the bound of a range for comparison with stored keys, and whether a key can equal it.

    No key contains a control character, so a bound is cut there and continues with the next
    printable character. No key is longer than `limits.KEY_UNITS`, so the rest does not matter.
    """
    possible = True
    if control := _CONTROL.search(bound):
        bound = bound[: control.start()] + (" " if control[0] < " " else "\xa0")
        possible = False
    return encode(bound)[: limits.KEY_UNITS + 1], possible


def _write(found: re.Match[str]) -> str:
    character = found[0]
    return _WRITTEN.get(character) or f"{_NUMBERED}{ord(character):06x}"


def _read(found: re.Match[str]) -> str:
    written = found[0]
    if written in _READ:
        return _READ[written]
    number = int(written[1:], 16)
    return chr(number) if number <= 0x10FFFF else written
