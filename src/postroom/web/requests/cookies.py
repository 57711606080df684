"""The names and attributes of our cookies."""

from __future__ import annotations

import re
from typing import Final

import msgspec
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
