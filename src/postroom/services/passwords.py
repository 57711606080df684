"""Passwords: what is accepted, and how they are kept."""

from __future__ import annotations

import asyncio
import base64
import secrets

import argon2

from postroom.domain.errors import Invalid

SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 1000

_HASHER = argon2.PasswordHasher()


def _no_hash() -> str:
    """Looks like a hash, of nothing: to check a password against it takes as long as any."""
    salt, hashed = (
        base64.b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (_HASHER.salt_len, _HASHER.hash_len)
    )
    cost = f"m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${hashed}"


_NOBODY = _no_hash()


def check_password(password: str, field: str = "password") -> str:
    """The password, if it is one that may be chosen. `Invalid`."""
    if len(password) < SHORTEST_PASSWORD:
        raise Invalid(field, f"has at least {SHORTEST_PASSWORD} characters")
    if len(password) > LONGEST_PASSWORD:
        raise Invalid(field, f"has at most {LONGEST_PASSWORD} characters")
    if len(set(password)) < 4:
        raise Invalid(field, "needs more than three different characters")
    return password


class Passwords:
    """Hashes and checks. A hash takes 100 ms and 64 MB by design: two at a time do not stop the
    rest of the process."""

    def __init__(self) -> None:
        self._hashing = asyncio.Semaphore(2)

    async def hash(self, password: str) -> str:
        async with self._hashing:
            return await asyncio.to_thread(_HASHER.hash, _bytes(password))

    async def fits(self, hashed: str | None, password: str) -> bool:
        """Whether it is the one that was hashed. Takes as long without a hash; then it is False."""
        async with self._hashing:
            try:
                await asyncio.to_thread(
                    _HASHER.verify, hashed or _NOBODY, _bytes(password[:LONGEST_PASSWORD])
                )
            except argon2.exceptions.VerificationError:
                return False
        return hashed is not None


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogatepass")
