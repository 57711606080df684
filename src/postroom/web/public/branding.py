"""The colour and logo of a list's public pages, without inline styles."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.audience.appearance import (
    Colour,
    contrast,
    mix,
    parse_colour,
    readable_on,
    text_on,
)
from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

# The backgrounds in css/tokens.css on which the colour is hardest to read, light and dark.
_LIGHT, _DARK = Colour("#f6f4ef"), Colour("#232220")
_VISIBLE_CONTRAST = 1.6
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


def style_url(colour: Colour) -> str:
    """Return the URL of the stylesheet that gives elements with the class `branded` this colour."""
    return f"/subscribe/style.css?colour={colour.removeprefix('#')}"


def logo_url(mailing_list: MailingList) -> str:
    """Return the URL of a list's logo; it changes with the picture."""
    return f"/logo/{mailing_list.name}?v={_version(mailing_list)}"


async def style(visit: Visit) -> Response:
    try:
        colour = parse_colour(visit.parameter("colour"))
    except Invalid:
        colour = Colour("")
    if not colour:
        return Response("", 404, media_type="text/css")
    return Response(stylesheet(colour), media_type="text/css", headers=_caching(True))


async def logo(visit: Visit) -> Response:
    try:
        mailing_list = await visit.services.lists.get(visit.parameter("name"))
    except (Invalid, NoSuch):
        return Response(status_code=404)
    is_current = visit.parameter("v") == _version(mailing_list)
    # The version of a private list's logo is known only to those who have seen its pages.
    may_see = mailing_list.public or is_current
    data = await visit.services.logos.read(mailing_list) if may_see else None
    if data is None:
        return Response(status_code=404)
    kind = mailing_list.logo.rpartition(".")[2]
    return Response(data, media_type=_TYPES[kind], headers=_caching(is_current))


def stylesheet(colour: Colour) -> str:
    """Return the tokens of the accent; text on the colour and in it is readable in both themes."""
    light, dark = _tokens(colour, _LIGHT), _tokens(colour, _DARK)
    lines = [f"  --{name}: light-dark({value}, {dark[name]});\n" for name, value in light.items()]
    return f".branded {{\n{''.join(lines)}}}\n"


def _tokens(colour: Colour, background: Colour) -> dict[str, str]:
    on, in_text = text_on(colour), readable_on(background, colour)
    return {
        "accent": in_text,
        "accent-fill": colour,
        # On hover: further from the colour of the text on it, which stays readable.
        "accent-fill-hover": mix(colour, text_on(on), 0.15),
        # A button in nearly the colour of the page gets a visible border.
        "accent-line": colour if contrast(colour, background) >= _VISIBLE_CONTRAST else in_text,
        "on-accent": on,
        "focus": in_text,
    }


def _version(mailing_list: MailingList) -> str:
    return mailing_list.logo.rpartition(",")[2].partition(".")[0]


def _caching(for_ever: bool) -> dict[str, str]:
    return {"Cache-Control": _FOR_EVER if for_ever else "no-cache"}


VIEWS = (
    View("/subscribe/style.css", style, role=None, protected=False),
    View("/logo/{name}", logo, role=None, protected=False),
)
