"""Signed values that a visitor carries for us: told apart by purpose, with an age limit."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import StrEnum
from pathlib import Path
from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer

from postroom.errors import PostroomError
from postroom.folders import make_private, tighten

_KEY_BYTES = 32


class Signer:
    """Signs for one purpose: what was signed for another is not accepted."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._serializer = URLSafeTimedSerializer(
            secret,
            salt=f"postroom {purpose}",
            signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"},
        )

    def sign(self, value: Any) -> str:
        return str(self._serializer.dumps(value))

    def read(self, text: str, *, max_age: int) -> Any | None:
        """The value, or None for what we did not sign, or too long ago."""
        try:
            return self._serializer.loads(text, max_age=max_age)
        except BadSignature:
            return None


class CsrfKind(StrEnum):
    """Whose forms a token is for: tokens of one kind are worth nothing for the other."""

    SESSION = "session"
    VISITOR = "visitor"


def csrf_token(secret: bytes, kind: CsrfKind, carrier: str) -> str:
    """What forms of this session (or of this visitor without one) have to bring back."""
    return hmac.new(secret, f"csrf of {kind}: {carrier}".encode(), hashlib.sha256).hexdigest()


def secret_from(setting: str, data: Path) -> bytes:
    """The key as it was set, or one of this machine's own, made at the first start.

    Several web servers need the same key: then it has to be set.
    """
    if setting:
        return setting.encode()
    file = data / "secret.key"
    try:
        make_private(data)
        if not file.exists():
            _write_once(file, secrets.token_hex(_KEY_BYTES))
        tighten(file)
        return file.read_text().strip().encode()
    except OSError as exc:
        raise PostroomError(
            f"the secret key cannot be kept in {file} ({exc.strerror}): set POSTROOM_SECRET_KEY"
        ) from exc


def _write_once(file: Path, text: str) -> None:
    """Of two processes that start at once, one writes; nobody reads half a key."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    try:
        file.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
