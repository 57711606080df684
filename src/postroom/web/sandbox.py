"""HTML that is not ours, shown in a frame in which it can do nothing but look like itself."""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

# `sandbox` without allow-scripts and allow-same-origin: no script, no form, no cookie of ours, even
# if somebody opens the address outside its frame. Links open in a window of their own.
POLICY = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none';"
    " style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'"
)
_LINKS_OUTSIDE = '<base target="_blank">'


def sandboxed(html: str) -> Response:
    """The answer for the frame. Nothing is fetched from elsewhere, and no address is told."""
    return HTMLResponse(
        _LINKS_OUTSIDE + html,
        headers={
            "Content-Security-Policy": POLICY,
            "X-Frame-Options": "SAMEORIGIN",
            "Referrer-Policy": "no-referrer",
        },
    )
