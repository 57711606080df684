"""The second factor: codes of an authenticator app (TOTP, RFC 6238), and recovery codes.

Pure functions, without the store.
"""

from __future__ import annotations

import base64
import hashlib
import math
import secrets
from collections.abc import Sequence
from datetime import datetime

import pyotp

from postroom.domain.errors import NotNow
from postroom.domain.rate_limits import RateLimit

STEP_SECONDS = 30
RECOVERY_CODES = 10
ISSUER = "Postroom"
_RECOVERY_BYTES = 10  # 80 random bits: a plain hash is enough
_LONGEST = 100


CODES = RateLimit(10, 600)
"""Codes of one user's second factor. They need the password first, so this can be strict: guessing
succeeds with a chance of less than one in two thousand per day."""


class TooManyCodes(NotNow):
    """Too many wrong codes of a second factor: the next one is accepted in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"too many wrong codes: wait {math.ceil(seconds / 60)} min")


def new_secret() -> str:
    return pyotp.random_base32()


def app_link(secret: str, email: str) -> str:
    """Return the content of the QR code for an authenticator app."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=ISSUER)


def matching_step(secret: str, code: str, after: int, now: datetime) -> int | None:
    """Return the time step that a code belongs to, or None if it is wrong.

    Clocks may differ by one step. Only steps after `after`, the last one used, are accepted: each
    code works once.
    """
    digits = "".join(code.split())[:_LONGEST]
    current = int(now.timestamp()) // STEP_SECONDS
    otp = pyotp.TOTP(secret)
    for step in (current - 1, current, current + 1):
        if step > after and secrets.compare_digest(
            otp.at(step * STEP_SECONDS).encode(), digits.encode(errors="replace")
        ):
            return step
    return None


def new_recovery_codes() -> list[str]:
    """Return new recovery codes; each works once instead of a code from the app."""
    return [_formatted(secrets.token_bytes(_RECOVERY_BYTES)) for _ in range(RECOVERY_CODES)]


def hashed_codes(codes: list[str]) -> str:
    """Return the hashes of recovery codes, as they are stored."""
    return " ".join(map(hashed_code, codes))


def hashed_code(code: str) -> str:
    """Return the hash of a recovery code; spaces, dashes and case do not matter."""
    bare = "".join(each for each in code[:_LONGEST].lower() if each.isalnum())
    return hashlib.sha256(bare.encode()).hexdigest()


def without_code(hashes: Sequence[str], code: str) -> list[str] | None:
    """Return the remaining hashes if the code is one of them, otherwise None."""
    used = hashed_code(code)
    return [each for each in hashes if each != used] if used in hashes else None


def _formatted(raw: bytes) -> str:
    text = base64.b32encode(raw).decode().lower()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))
