"""HTML that is not ours, shown in a frame in which it can do nothing but look like itself."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import HTMLResponse, Response

# `sandbox` without allow-scripts and allow-same-origin: no script, no form, no cookie of ours, even
# if somebody opens the address outside its frame. Links open in a window of their own.
_POLICY: Final = (
    "sandbox{rights} allow-popups allow-popups-to-escape-sandbox; default-src 'none';"
    " style-src 'unsafe-inline'; img-src {pictures}; font-src data:; frame-ancestors 'self'"
)
_LINKS_OUTSIDE: Final = '<base target="_blank">'
_DOCTYPE: Final = re.compile(r"\s*<!doctype[^>]*>", re.IGNORECASE)


def sandboxed(html: str, *, with_pictures: bool = False, is_scrolled: bool = False) -> Response:
    """Return the answer for the frame. Nothing is fetched from elsewhere, except for pictures
    `with_pictures`, which tell other sites who looks: for somebody who writes the message, or who
    asked for them.

    `is_scrolled`: the page around the frame keeps its scroll position. That needs the same origin,
    and is safe because the document still cannot run scripts or send forms.
    """
    doctype = _DOCTYPE.match(html)
    # Behind it: a document with anything before its type is shown by the rules of another age.
    begin = doctype.end() if doctype else 0
    return HTMLResponse(
        html[:begin] + _LINKS_OUTSIDE + html[begin:],
        headers={
            "Content-Security-Policy": _POLICY.format(
                rights=" allow-same-origin" if is_scrolled else "",
                pictures="data: https: http:" if with_pictures else "data:",
            ),
            "X-Frame-Options": "SAMEORIGIN",
            "Referrer-Policy": "no-referrer",
        },
    )
