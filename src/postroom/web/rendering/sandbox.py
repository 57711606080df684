"""User-supplied HTML, served for a sandboxed frame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from starlette.responses import HTMLResponse, Response

from postroom.domain.messages.pictures import PATH

# `sandbox` without allow-scripts and allow-same-origin: no scripts, forms or cookies, even if
# someone opens the URL outside its frame. Links open in a new window.
_POLICY: Final = (
    "sandbox{rights} allow-popups allow-popups-to-escape-sandbox; default-src 'none';"
    " style-src 'unsafe-inline'; img-src {pictures}; font-src data:; frame-ancestors 'self'"
)
_LINKS_OUTSIDE: Final = '<base target="_blank">'
_DOCTYPE: Final = re.compile(r"\s*<!doctype[^>]*>", re.IGNORECASE)


def sandboxed(
    html: str,
    *,
    base_url: str,
    with_pictures: bool = False,
    is_scrolled: bool = False,
    headers: Mapping[str, str] = {},
) -> Response:
    """Return the response for the frame. It shows our own pictures, whose addresses begin with
    `base_url`. Nothing is loaded from other sites, except pictures if `with_pictures`; those let
    other sites see who is looking.

    `is_scrolled`: the surrounding page restores the scroll position. This requires the same origin
    and is safe, because the document still cannot run scripts or send forms.
    """
    doctype = _DOCTYPE.match(html)
    # After the doctype: anything before it would switch browsers to quirks mode.
    begin = doctype.end() if doctype else 0
    return HTMLResponse(
        html[:begin] + _LINKS_OUTSIDE + html[begin:],
        headers={
            "Content-Security-Policy": _POLICY.format(
                rights=" allow-same-origin" if is_scrolled else "",
                pictures="data: https: http:" if with_pictures else f"data: {_own(base_url)}",
            ),
            "X-Frame-Options": "SAMEORIGIN",
            "Referrer-Policy": "no-referrer",
            **headers,
        },
    )


def _own(base_url: str) -> str:
    return f"{base_url.rstrip('/')}{PATH}"
