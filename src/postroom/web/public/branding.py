"""The colour and the logo of a list's pages, without a style or script inside a page."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.audience.colours import (
    Colour,
    contrast,
    mix,
    parse_colour,
    readable_on,
    text_on,
)
from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import Invalid, NoSuch
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

# The backgrounds in postroom.css on which the colour is hardest to read, light and dark.
_LIGHT, _DARK = Colour("#f3f5f9"), Colour("#181c25")
_SEEN = 1.6
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


def style_url(colour: Colour) -> str:
    """A stylesheet for one colour; what has the class `branded` wears it."""
    return f"/subscribe/style.css?colour={colour.removeprefix('#')}"


def logo_url(mailing_list: MailingList) -> str:
    """It changes with the picture."""
    return f"/logo/{mailing_list.name}?v={_version(mailing_list)}"


async def style(visit: Visit) -> Response:
    try:
        colour = parse_colour(visit.parameter("colour"))
    except Invalid:
        colour = Colour("")
    if not colour:
        return Response("", 404, media_type="text/css")
    return Response(stylesheet(colour), media_type="text/css", headers=_kept(True))


async def logo(visit: Visit) -> Response:
    try:
        mailing_list = await visit.services.lists.get(visit.parameter("name"))
    except (Invalid, NoSuch):
        return Response(status_code=404)
    is_current = visit.parameter("v") == _version(mailing_list)
    # Of a list that is not open to everyone, only those who have seen its pages know the version.
    may_see = mailing_list.public or is_current
    data = await visit.services.logos.read(mailing_list) if may_see else None
    if data is None:
        return Response(status_code=404)
    kind = mailing_list.logo.rpartition(".")[2]
    return Response(data, media_type=_TYPES[kind], headers=_kept(is_current))


def stylesheet(colour: Colour) -> str:
    """Pico's variables; text on the colour and in the colour can be read in light and dark."""
    return (
        f".branded {{\n{_variables(colour, _LIGHT)}}}\n"
        f"@media (prefers-color-scheme: dark) {{\n.branded {{\n{_variables(colour, _DARK)}}}\n}}\n"
    )


def _variables(colour: Colour, background: Colour) -> str:
    on, in_text = text_on(colour), readable_on(background, colour)
    # Under the pointer: away from the text on it, which stays readable.
    pressed = mix(colour, text_on(on), 0.15)
    # A button in nearly the colour of the page has an edge at least.
    edge = colour if contrast(colour, background) >= _SEEN else in_text
    values = {
        "primary": in_text,
        "primary-hover": mix(in_text, text_on(background), 0.2),
        "primary-underline": f"{in_text}80",
        "primary-hover-underline": in_text,
        "primary-background": colour,
        "primary-border": edge,
        "primary-hover-background": pressed,
        "primary-hover-border": edge,
        "primary-inverse": on,
        "primary-focus": f"{in_text}60",
        "form-element-active-border-color": in_text,
        "form-element-focus-color": in_text,
    }
    return "".join(f"  --pico-{name}: {value};\n" for name, value in values.items())


def _version(mailing_list: MailingList) -> str:
    return mailing_list.logo.rpartition(",")[2].partition(".")[0]


def _kept(for_ever: bool) -> dict[str, str]:
    return {"Cache-Control": _FOR_EVER if for_ever else "no-cache"}


PAGES = (
    Page("/subscribe/style.css", style, role=None, protected=False),
    Page("/logo/{name}", logo, role=None, protected=False),
)
