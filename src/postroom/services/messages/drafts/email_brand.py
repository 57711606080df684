"""The brand of a list as its emails show it."""

from __future__ import annotations

from urllib.parse import quote

from postroom.composing.brand import DEFAULT_COLOUR, EmailBrand, EmailLink
from postroom.domain.audience.brand import FONTS
from postroom.domain.audience.lists import MailingList


def email_brand(mailing_list: MailingList, base_url: str) -> EmailBrand:
    """Return what templates show of a list. Without a base URL, nobody could load its logo."""
    brand = mailing_list.brand
    return EmailBrand(
        name=mailing_list.description or mailing_list.name,
        colour=brand.colour or DEFAULT_COLOUR,
        button_colour=brand.button_colour,
        logo_url=_logo_url(mailing_list, base_url) if mailing_list.logo and base_url else "",
        font=FONTS[brand.font],
        postal_address=brand.postal_address,
        links=tuple(EmailLink(link.text, link.url) for link in brand.links),
        footer_text=brand.footer_in(mailing_list.language),
        language=mailing_list.language,
    )


def _logo_url(mailing_list: MailingList, base_url: str) -> str:
    version = mailing_list.logo.rpartition(",")[2].partition(".")[0]
    return f"{base_url.rstrip('/')}/logo/{quote(mailing_list.name)}?v={version}"
