"""The cookies that browsers carry for us, and what they are called."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_WITH_PORT: Final = re.compile(r"https?://[^/]*:(\d+)(/|$)")


class CookieNames(msgspec.Struct, frozen=True):
    """Who is logged in, who sends a form without being logged in, and what is to be said once."""

    session: str
    visitor: str
    said: str


def cookie_names(base_url: str) -> CookieNames:
    """The names at this address. The port is in them: a browser does not tell ports of one host
    apart, and two Postrooms on it would log each other's users out."""
    found = _WITH_PORT.match(base_url)
    suffix = f"_{found[1]}" if found else ""
    return CookieNames(
        f"postroom_session{suffix}", f"postroom_visitor{suffix}", f"postroom_said{suffix}"
    )
