"""The secret key: is it set, and could it be guessed?"""

from __future__ import annotations

from postroom.checks.findings import Finding, State
from postroom.settings import Settings

# A random key of 32 characters has hardly fewer different ones than this.
_FEW_CHARACTERS = 10
_HOW = "Make one with: python3 -c 'import secrets; print(secrets.token_hex(32))'"


def check_secret_key(settings: Settings) -> Finding:
    key = settings.text("secret_key")
    if not key:
        return Finding(
            "secret_key",
            State.OK,
            f"made at the first start, in {settings.data / 'secret.key'};"
            " several web servers need one that is set",
        )
    if len(set(key)) < _FEW_CHARACTERS:
        return Finding("secret_key", State.WARNING, "is set, but could be guessed", _HOW)
    return Finding("secret_key", State.OK, f"is set, {len(key)} characters")
