"""Partition and row keys as Azure Tables keeps them: reversible, and in the same order.

Azure forbids `/ \\ # ?` and control characters in keys. `%` and `'` are legal, but lose their
meaning on the way through URLs (Azurite writes to another row where `',` is in a key). And Azure
compares UTF-16 code units, so that U+1F389 (two units from U+D800 on) sorts before U+FFEE. Range
queries need the order of code points. Hence:

- One of these characters becomes its predecessor followed by U+FFFD: `/` is `.` + U+FFFD. Nothing
  that begins with the predecessor sorts behind that, and everything else before what followed.
- A character from U+E000 on becomes U+FFFC and its number in six hexadecimal digits, so that
  U+FFFD stays the largest that can follow a predecessor.

Everything else, so an address, a date or a GUID, looks in Storage Explorer as it is. How long a key
becomes is counted by `names.key_units`.
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
    """The key as Azure keeps it."""
    return _TO_WRITE.sub(_write, key)


def decode(kept: str) -> str:
    """The key that `encode` was given. What other programs wrote comes back as it is."""
    return _TO_READ.sub(_read, kept)


def encode_bound(bound: str) -> tuple[str, bool]:
    """The bound of a range, to be compared with kept keys, and whether a key can be equal to it.

    No key has a control character, so what begins with `a` and a control character ends where
    keys with the next printable character begin. No key is longer than `limits.KEY_UNITS`, so
    what follows there decides nothing.
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
