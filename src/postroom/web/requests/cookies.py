"""Our cookies, and signed values in cookies and forms: each for one purpose, with an age limit."""

from __future__ import annotations

import hashlib
import hmac
import re
from enum import StrEnum
from typing import Any, Final

import msgspec
from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.responses import Response

_WITH_PORT: Final = re.compile(r"https?://[^/]*:(\d+)(/|$)")


class Cookies(msgspec.Struct, frozen=True):
    """The names: of a session, of a visitor who is not logged in, of a flash message, and of the
    users who have logged in with this browser before.

    Scripts cannot read them, and forms of other sites do not send them. With HTTPS they are sent
    over HTTPS only, and their names start with `__Host-`, which browsers accept from this host
    only.
    """

    session: str
    visitor: str
    flash: str
    device: str
    secure: bool

    def set(self, response: Response, name: str, value: str, max_age: int | None = None) -> None:
        """Set a cookie; without `max_age`, until the browser is closed."""
        response.set_cookie(
            name, value, max_age=max_age, httponly=True, samesite="lax", secure=self.secure
        )

    def delete(self, response: Response, name: str) -> None:
        # With the same attributes, or browsers ignore the change of a __Host- cookie.
        response.delete_cookie(name, httponly=True, samesite="lax", secure=self.secure)


def cookies_at(base_url: str) -> Cookies:
    """Return the cookies of the installation at this URL. Their names contain the port: browsers
    send cookies to all ports of a host, and two installations would log each other's users out."""
    found = _WITH_PORT.match(base_url)
    suffix = f"_{found[1]}" if found else ""
    secure = base_url.startswith("https://")
    prefix = "__Host-" if secure else ""
    session, visitor, flash, device = (
        f"{prefix}postroom_{name}{suffix}" for name in ("session", "visitor", "flash", "device")
    )
    return Cookies(session, visitor, flash, device, secure)


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
