"""The brand of a list's public pages, without inline styles: a stylesheet and the logo."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.audience.lists.appearance import (
    Accent,
    Colour,
    accent_on,
    parse_colour,
)
from postroom.domain.audience.lists.brand import (
    DEFAULT_FONT,
    FONTS,
    Brand,
    initial_of,
    logo_version,
    parse_font,
)
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

# The backgrounds in css/tokens.css on which the colour is hardest to read, light and dark.
BACKGROUNDS: Final = (Colour("#f6f4ef"), Colour("#232220"))
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


def style_url(brand: Brand) -> str:
    """Return the URL of the stylesheet that gives elements with the class `branded` the colour and
    font; "" if they are the standard ones. The stylesheet depends only on its URL, so it can be
    cached."""
    given = {"colour": brand.colour.removeprefix("#")} if brand.colour else {}
    if brand.font != DEFAULT_FONT:
        given["font"] = brand.font
    return f"/subscribe/style.css?{urlencode(given)}" if given else ""


def logo_url(mailing_list: MailingList) -> str:
    """Return the URL of a list's logo; it changes with the picture."""
    return f"/logo/{mailing_list.name}?v={logo_version(mailing_list.logo)}"


def brand_values(mailing_list: MailingList, brand: Brand) -> dict[str, object]:
    """Return what previews of public pages need, for a list in this brand."""
    return {
        "list_brand": brand,
        "style": style_url(brand),
        "logo": logo_url(mailing_list) if mailing_list.logo else "",
        "initial": initial_of(mailing_list.description),
    }


async def style(visit: Visit) -> Response:
    try:
        colour = parse_colour(visit.parameter("colour"))
        font = parse_font(visit.parameter("font", DEFAULT_FONT))
    except Invalid:
        colour, font = Colour(""), DEFAULT_FONT
    if not colour and font == DEFAULT_FONT:
        return Response("", 404, media_type="text/css")
    return Response(stylesheet(colour, font), media_type="text/css", headers=_caching(True))


async def logo(visit: Visit) -> Response:
    try:
        mailing_list = await visit.services.lists.get(visit.parameter("name"))
    except (Invalid, NoSuch):
        return Response(status_code=404)
    is_current = visit.parameter("v") == logo_version(mailing_list.logo)
    # The version of a private list's logo is known only to those who have seen its pages.
    may_see = mailing_list.public or is_current
    data = await visit.services.logos.read(mailing_list) if may_see else None
    if data is None:
        return Response(status_code=404)
    kind = mailing_list.logo.rpartition(".")[2]
    return Response(data, media_type=_TYPES[kind], headers=_caching(is_current))


def stylesheet(colour: Colour, font: str = DEFAULT_FONT) -> str:
    """Return the tokens of the accent and the font. Text on the colour and in it is readable in
    both themes."""
    lines: list[str] = []
    if colour:
        light, dark = (_tokens(accent_on(each, colour)) for each in BACKGROUNDS)
        lines = [f"  --{name}: light-dark({light[name]}, {dark[name]});\n" for name in light]
    if font != DEFAULT_FONT:
        lines += [f"  --font: {FONTS[font]};\n", "  font-family: var(--font);\n"]
    return f".branded {{\n{''.join(lines)}}}\n"


def _tokens(accent: Accent) -> dict[str, Colour]:
    return {
        "accent": accent.text,
        "accent-fill": accent.fill,
        "accent-fill-hover": accent.hover,
        "accent-line": accent.line,
        "accent-tint": accent.tint,
        "on-accent": accent.on_fill,
        "focus": accent.text,
    }


def _caching(for_ever: bool) -> dict[str, str]:
    return {"Cache-Control": _FOR_EVER if for_ever else "no-cache"}


VIEWS = (
    View("/subscribe/style.css", style, is_public=True, protected=False),
    View("/logo/{name}", logo, is_public=True, protected=False),
)
