"""User-supplied HTML, served for a sandboxed frame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from starlette.responses import HTMLResponse, Response

from postroom.domain.messages.pictures import PATH
from postroom.web.rendering.picture_sites import is_public_site, picture_sites

# `sandbox` without allow-scripts and allow-same-origin: no scripts, forms or cookies, even if
# someone opens the URL outside its frame. Links open in a new window.
_POLICY: Final = (
    "sandbox{rights} allow-popups allow-popups-to-escape-sandbox; default-src 'none';"
    " style-src 'unsafe-inline'; img-src {pictures}; font-src data:; frame-ancestors 'self'"
)
# The canvas of the editor: the page around it listens to its events, which some browsers allow only
# without `sandbox`. Nothing runs in it either way, and what is shown there was sanitised.
_CANVAS_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data: {pictures};"
    " font-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_CANVAS: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Message</title></head>'
    "<body></body></html>"
)
_DARK: Final = re.compile(r"\(\s*prefers-color-scheme\s*:\s*(dark|light)\s*\)", re.IGNORECASE)
_SCHEMES: Final = re.compile(
    r"(<meta\s[^<>]*name=\"(?:supported-)?color-schemes?\"\s+content=\")[^\"]*\"", re.IGNORECASE
)
_ALWAYS, _NEVER = "(min-width: 0)", "(max-width: 0)"
_LINKS_OUTSIDE: Final = '<base target="_blank">'
_LOGOS: Final = "/logo/"
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
    `base_url`, and logos of lists. Nothing is loaded from other sites, except pictures if
    `with_pictures`; those let other sites see who is looking. Hosts of a private network are never
    asked.

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
                pictures=" ".join(
                    ["data:", _own(base_url), *(picture_sites(html) if with_pictures else ())]
                ),
            ),
            "X-Frame-Options": "SAMEORIGIN",
            "Referrer-Policy": "no-referrer",
            **headers,
        },
    )


def canvas_frame(base_url: str, sites: list[str]) -> Response:
    """Return an empty document, which the editor fills."""
    pictures = " ".join([_own(base_url), *filter(is_public_site, sites)])
    policy = _CANVAS_POLICY.format(pictures=pictures)
    return HTMLResponse(
        _CANVAS,
        headers={
            "Content-Security-Policy": policy,
            "X-Frame-Options": "SAMEORIGIN",
            "Referrer-Policy": "no-referrer",
        },
    )


def with_theme(html: str, *, is_dark: bool) -> str:
    """Return a document whose styles for light or dark screens hold, whatever the screen is."""
    shown = "dark" if is_dark else "light"
    fixed = _DARK.sub(lambda found: _ALWAYS if found[1].lower() == shown else _NEVER, html)
    return _SCHEMES.sub(rf'\g<1>{shown}"', fixed)


def _own(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base}{PATH} {base}{_LOGOS}"
