"""The cookies that browsers carry for us: what they are called, and how they are set."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from starlette.responses import Response

_WITH_PORT: Final = re.compile(r"https?://[^/]*:(\d+)(/|$)")


class Cookies(msgspec.Struct, frozen=True):
    """The names: who is logged in, who sends a form without being logged in, what the next page
    says once, and which users have logged in with this browser before.

    None of them is readable by scripts or sent along from other sites' forms. Where visitors come
    by https they are sent by https only, and their names begin with `__Host-`: a browser takes
    such a cookie from nobody but this very host.
    """

    session: str
    visitor: str
    said: str
    device: str
    secure: bool

    def set(self, response: Response, name: str, value: str, max_age: int | None = None) -> None:
        """Give the browser a cookie; without `max_age`, until it is closed."""
        response.set_cookie(
            name, value, max_age=max_age, httponly=True, samesite="lax", secure=self.secure
        )

    def delete(self, response: Response, name: str) -> None:
        # With the same attributes: a browser ignores any other change of a __Host- cookie.
        response.delete_cookie(name, httponly=True, samesite="lax", secure=self.secure)


def cookies_at(base_url: str) -> Cookies:
    """Return the cookies of the installation at this address. The port is in their names: a
    browser does not tell ports of one host apart, and two Postrooms would log each other's users
    out."""
    found = _WITH_PORT.match(base_url)
    suffix = f"_{found[1]}" if found else ""
    secure = base_url.startswith("https://")
    prefix = "__Host-" if secure else ""
    session, visitor, said, device = (
        f"{prefix}postroom_{name}{suffix}" for name in ("session", "visitor", "said", "device")
    )
    return Cookies(session, visitor, said, device, secure)
