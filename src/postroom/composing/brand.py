"""How a list presents itself in its emails."""

from __future__ import annotations

import html
from typing import Final

import msgspec

from postroom.domain.audience.lists.appearance import Colour, readable_on, text_on
from postroom.domain.languages import LANGUAGES
from postroom.mail.bodies.documents import DEFAULT_FONT
from postroom.translations import Translator

DEFAULT_COLOUR: Final = Colour("#27509b")
_DARK_SURFACE: Final = Colour("#1d2024")


class EmailLink(msgspec.Struct, frozen=True):
    """A page of the organisation elsewhere, such as on Mastodon."""

    text: str
    url: str


class EmailBrand(msgspec.Struct, frozen=True):
    """What templates show of a list. Empty values leave their places out."""

    name: str = ""
    colour: Colour = DEFAULT_COLOUR
    button_colour: Colour = Colour("")
    """Empty: the same."""
    logo_url: str = ""
    font: str = DEFAULT_FONT
    postal_address: str = ""
    links: tuple[EmailLink, ...] = ()
    footer_text: str = ""
    language: str = LANGUAGES[0]


def brand_values(brand: EmailBrand) -> dict[str, str]:
    """Return the value of `{% brand NAME %}`, as HTML."""
    colour = brand.colour or DEFAULT_COLOUR
    button_colour = brand.button_colour or colour
    _ = Translator(brand.language)
    return {
        "name": html.escape(brand.name),
        "colour": colour,
        "text_on_colour": text_on(colour),
        "button_colour": button_colour,
        "text_on_button": text_on(button_colour),
        "colour_on_dark": readable_on(_DARK_SURFACE, colour),
        "logo_url": html.escape(brand.logo_url),
        "font": html.escape(brand.font),
        "language": html.escape(brand.language),
        "links": " &nbsp;·&nbsp; ".join(
            f'<a href="{html.escape(link.url)}">{html.escape(link.text)}</a>'
            for link in brand.links
        ),
        "footer_text": _lines(brand.footer_text),
        "postal_address": _lines(brand.postal_address),
        "why": _(
            "You receive this email because you subscribed to %(list)s.",
            list="{{ list_description }}",
        ),
        "view": _("View in browser"),
        "preferences": _("Preferences"),
        "unsubscribe": _("Unsubscribe"),
    }


def _lines(text: str) -> str:
    """Return text as HTML; braces in it are literal."""
    return html.escape(text).replace("{", "&#123;").replace("\n", "<br>\n")
