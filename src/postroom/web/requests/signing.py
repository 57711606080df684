"""Signed values in cookies and forms: each for one purpose, with an age limit."""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer


class Signer:
    """Signs values for one purpose; a value that was signed for another is not accepted."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._serializer = URLSafeTimedSerializer(
            secret,
            salt=f"postroom {purpose}",
            signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"},
        )

    def sign(self, value: Any) -> str:
        return str(self._serializer.dumps(value))

    def read(self, text: str, *, max_age: int) -> Any | None:
        """Return the value, or None if the signature is invalid or too old."""
        try:
            return self._serializer.loads(text, max_age=max_age)
        except BadSignature:
            return None


class CsrfKind(StrEnum):
    """Whose forms a CSRF token is for; tokens of one kind are not valid for the other."""

    SESSION = "session"
    VISITOR = "visitor"


def csrf_token(secret: bytes, kind: CsrfKind, carrier: str) -> str:
    """Return the token that forms of this session, or of this visitor without one, must contain."""
    return hmac.new(secret, f"csrf of {kind}: {carrier}".encode(), hashlib.sha256).hexdigest()
