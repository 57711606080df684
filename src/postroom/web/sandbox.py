"""HTML that is not ours, shown in a frame in which it can do nothing but look like itself."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import HTMLResponse, Response

# `sandbox` without allow-scripts and allow-same-origin: no script, no form, no cookie of ours, even
# if somebody opens the address outside its frame. Links open in a window of their own.
_POLICY: Final = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none';"
    " style-src 'unsafe-inline'; img-src {pictures}; font-src data:; frame-ancestors 'self'"
)
_LINKS_OUTSIDE: Final = '<base target="_blank">'
_DOCTYPE: Final = re.compile(r"\s*<!doctype[^>]*>", re.IGNORECASE)


def sandboxed(html: str, *, with_pictures: bool = False) -> Response:
    """The answer for the frame. No address is told to anybody, and nothing is fetched from
    elsewhere: only, `with_pictures`, those of somebody who looks at what they wrote themselves."""
    doctype = _DOCTYPE.match(html)
    # Behind it: a document with anything before its type is shown by the rules of another age.
    begin = doctype.end() if doctype else 0
    return HTMLResponse(
        html[:begin] + _LINKS_OUTSIDE + html[begin:],
        headers={
            "Content-Security-Policy": _POLICY.format(
                pictures="data: https: http:" if with_pictures else "data:"
            ),
            "X-Frame-Options": "SAMEORIGIN",
            "Referrer-Policy": "no-referrer",
        },
    )
