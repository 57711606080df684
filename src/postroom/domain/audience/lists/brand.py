"""The brand of a list: how its public pages and the emails that Postroom writes look, and who sends
them.

The colour's arithmetic is in `appearance.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

from postroom.domain.audience.lists.appearance import Colour, parse_button_colour, parse_colour
from postroom.domain.audience.lists.list_property import Input, ListForm, ListProperty, lines
from postroom.domain.errors import Invalid
from postroom.domain.languages import ENGLISH_NAMES
from postroom.domain.plain_text import one_line

# Fonts that devices already have: nothing is loaded. Single quotes, because emails have them in
# attributes.
FONTS: Final[Mapping[str, str]] = {
    "sans": "-apple-system, 'Segoe UI', Roboto, 'Noto Sans', Helvetica, Arial, sans-serif",
    "humanist": "Seravek, 'Gill Sans Nova', Ubuntu, Calibri, 'DejaVu Sans', sans-serif",
    "serif": "'Iowan Old Style', 'Palatino Linotype', 'URW Palladio L', P052, Georgia, serif",
    "mono": "ui-monospace, 'Cascadia Code', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
}
FONT_LABELS: Final[Mapping[str, str]] = {
    "sans": "Sans serif",
    "humanist": "Humanist",
    "serif": "Serif",
    "mono": "Monospace",
}
DEFAULT_FONT: Final = "sans"

LONGEST_URL: Final = 300
MOST_LINKS: Final = 8

_URL = re.compile(r"https?://[^\s\"'<>\\^`{|}]+", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST = re.compile(r"[^.\s]+(?:\.[^.\s]+)+")
_NETWORKS: Final = {
    "bsky.app": "Bluesky",
    "discord.com": "Discord",
    "discord.gg": "Discord",
    "facebook.com": "Facebook",
    "github.com": "GitHub",
    "instagram.com": "Instagram",
    "linkedin.com": "LinkedIn",
    "mastodon.social": "Mastodon",
    "medium.com": "Medium",
    "pinterest.com": "Pinterest",
    "reddit.com": "Reddit",
    "t.me": "Telegram",
    "threads.com": "Threads",
    "threads.net": "Threads",
    "tiktok.com": "TikTok",
    "twitter.com": "X",
    "vimeo.com": "Vimeo",
    "vk.com": "VK",
    "whatsapp.com": "WhatsApp",
    "x.com": "X",
    "xing.com": "XING",
    "youtube.com": "YouTube",
}


class BrandLink(msgspec.Struct, frozen=True):
    """A link to the sender's website or profile, and its text."""

    url: str
    text: str


class Brand(msgspec.Struct, frozen=True):
    """The properties of a list that make up its brand; each may be empty."""

    colour: Colour = Colour("")
    button_colour: Colour = Colour("")
    """Of the buttons in emails; empty: the same."""
    font: str = DEFAULT_FONT
    website: str = ""
    social_links: str = ""
    footer_text: str = ""
    footer_text_en: str = ""
    footer_text_fr: str = ""
    footer_text_de: str = ""
    footer_text_ko: str = ""
    footer_text_ru: str = ""
    postal_address: str = ""
    logo: str = ""
    """The name of the stored picture, with its version."""

    def footer_in(self, language: str) -> str:
        """Return the footer text in one of our languages, or else the one for all of them."""
        return str(getattr(self, f"footer_text_{language}", "")) or self.footer_text

    @property
    def links(self) -> list[BrandLink]:
        """The website and the profiles, in this order."""
        urls = [self.website, *self.social_links.split("\n")]
        return [BrandLink(url, link_text(url)) for url in urls if url]


def logo_version(logo: str) -> str:
    """Return the part of the name of a logo that changes with the picture."""
    return logo.rpartition(",")[2].partition(".")[0]


def logo_url(list_name: str, logo: str, base_url: str) -> str:
    """Return where emails load the logo of a list: "" without a logo, and without a base URL, since
    nobody could load it."""
    if not logo or not base_url:
        return ""
    return f"{base_url.rstrip('/')}/logo/{quote(list_name)}?v={logo_version(logo)}"


def parse_font(text: str, field: str = "font") -> str:
    """Return one of `FONTS`. `Invalid`."""
    if text not in FONTS:
        raise Invalid(field, f"must be one of {', '.join(FONTS)}, not {str(text)[:20]!r}")
    return text


def parse_website(text: str, field: str = "website") -> str:
    """Return the address of a website, or ""; `https://` is added if it is missing. `Invalid`."""
    trimmed = one_line(field, text, longest=LONGEST_URL, required=False)
    return _parse_url(trimmed, field) if trimmed else ""


def parse_social_links(text: str, field: str = "social_links") -> str:
    """Return addresses, one per line, each once. `Invalid`."""
    if not isinstance(text, str):
        raise Invalid(field, "must be text")
    lines = [line for line in text.replace("\r", "\n").split("\n") if line.strip()]
    urls = [_parse_url(one_line(field, each, longest=LONGEST_URL), field) for each in lines]
    distinct = list(dict.fromkeys(urls))
    if len(distinct) > MOST_LINKS:
        raise Invalid(field, f"must have at most {MOST_LINKS} links, not {len(distinct)}")
    return "\n".join(distinct)


def link_text(url: str) -> str:
    """Return the name of a known network, or else the host without `www.`."""
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    while host:
        if host in _NETWORKS:
            return _NETWORKS[host]
        host = host.partition(".")[2]
    return (urlsplit(url).hostname or url).removeprefix("www.")


def _parse_url(text: str, field: str) -> str:
    url = text if _SCHEME.match(text) else f"https://{text}"
    if not (_URL.fullmatch(url) and _has_public_host(url)):
        raise Invalid(field, f"must look like https://www.example.com, not {text[:60]!r}")
    return url


def _has_public_host(url: str) -> bool:
    """Return whether the URL has a host with a dot, a valid port if any, and no password."""
    try:
        parts = urlsplit(url)
        is_plain = parts.port != 0 and parts.username is None and parts.password is None
        return is_plain and _HOST.fullmatch(parts.hostname or "") is not None
    except ValueError:  # such as a port that is not a number
        return False


def initial_of(name: str) -> str:
    """Return the first letter or digit of a name as a capital: it stands for a missing logo."""
    return next((each.upper()[:1] for each in name if each.isalnum()), "")


BRAND_PROPERTIES: Final = (
    ListProperty(
        name="colour",
        stored_as="Colour",
        label="Accent colour",
        help="The accent colour, for buttons and links, such as #27509b. Text on it is black or"
        " white, whichever is easier to read.",
        check=parse_colour,
        input=Input.COLOUR,
        longest=7,
        example="#27509b",
        form=ListForm.BRAND,
    ),
    ListProperty(
        name="button_colour",
        stored_as="ButtonColour",
        label="Button colour in emails",
        help="If empty: the accent colour. Text on it is black or white, whichever is easier to"
        " read.",
        check=parse_button_colour,
        input=Input.COLOUR,
        longest=7,
        example="#27509b",
        form=ListForm.BRAND,
    ),
    ListProperty(
        name="font",
        stored_as="Font",
        label="Font",
        help="Nothing is downloaded: each device uses a font that it already has.",
        check=parse_font,
        default=DEFAULT_FONT,
        input=Input.CHOICE,
        choices=tuple(FONTS),
        example="serif",
        restore=lambda name: name if name in FONTS else DEFAULT_FONT,
        form=ListForm.BRAND,
    ),
    ListProperty(
        name="website",
        stored_as="Website",
        label="Website",
        help="Linked at the end of public pages and emails.",
        check=parse_website,
        input=Input.LINK,
        longest=LONGEST_URL,
        example="https://www.example.com",
        form=ListForm.BRAND,
    ),
    ListProperty(
        name="social_links",
        stored_as="SocialLinks",
        label="Social links",
        help=f"Links to your profiles, one per line, up to {MOST_LINKS}.",
        check=parse_social_links,
        input=Input.LINKS,
        longest=MOST_LINKS * (LONGEST_URL + 1),
        example="https://www.instagram.com/contoso\nhttps://www.linkedin.com/company/contoso",
        form=ListForm.BRAND,
    ),
    lines(
        "footer_text",
        500,
        stored_as="FooterText",
        label="Footer text",
        help="Shown at the end of public pages, of confirmation and welcome emails, and of messages"
        " with a template, for example your company registration.",
        example="Registered in Ireland, no. 123456",
        form=ListForm.BRAND,
    ),
    *(
        lines(
            f"footer_text_{language}",
            500,
            stored_as=f"FooterText{language.capitalize()}",
            label=f"Footer text in {name}",
            help=f"Replaces the footer text on pages and in emails in {name}.",
            form=ListForm.BRAND,
        )
        for language, name in ENGLISH_NAMES.items()
    ),
    lines(
        "postal_address",
        500,
        stored_as="PostalAddress",
        label="Postal address",
        help="Shown at the end of every email; many countries require it. Leave empty if your own"
        " design already shows it.",
        example="Contoso Ltd\n1 Main Street\nDublin",
        form=ListForm.BRAND,
    ),
)
