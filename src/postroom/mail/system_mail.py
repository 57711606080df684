"""Emails that Postroom writes itself: confirmation requests to subscribers, notices to operators.

They have no unsubscribe link: a subscriber who does not confirm is on no list.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.brand import Brand, logo_url
from postroom.domain.audience.lists.list_emails import ListEmail
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.languages import LANGUAGES, known_language
from postroom.mail.assembly import (
    ListIdentity,
    address_change_link,
    assemble,
    confirm_changes_link,
    confirm_link,
    list_identity,
)
from postroom.mail.bodies.body_encoding import BodyPart
from postroom.mail.bodies.branded_frame import BrandedFrame, text_footer
from postroom.mail.mailing import Mailing
from postroom.mail.personal.merge_fields import FIELD
from postroom.mail.personal.slots import Pieces, Slot
from postroom.translations import Translator

# Stand-ins for what differs between recipients: no checked text can contain them.
_EMAIL: Final = "\x01"
_GUID: Final = "\x02"
_PLAIN: Final = Brand()
_AUTOMATIC: Final[Pieces] = [b"Auto-Submitted: auto-generated\r\n"]

_TEXT: Final = """\
{title}

{asked}

{please}

{link}

{ignore}
{footer}"""


def compile_confirmation(
    *,
    list_name: ListName,
    description: str,
    from_address: Address,
    base_url: str,
    date: datetime,
    language: str = "",
    list_language: str = LANGUAGES[0],
    brand: Brand = _PLAIN,
    reply_to: str = "",
) -> Mailing:
    """Compile the email that asks a subscriber to confirm, in the list's brand.

    It is in the language of the sign-up, and so is the page behind its link. If that is unknown,
    the email is in the list's language, and the browser decides about the page. `date` is when the
    confirmation was requested: another attempt with the same date has the same Message-ID, another
    request has a new one, so that no server takes it for a duplicate.
    """
    identity = list_identity(list_name, description, from_address)
    link = confirm_link(base_url, identity.list_name, known_language(language))
    url = f"{link.before}{_GUID}{link.after}"
    letter = _confirmation(Translator(known_language(language) or list_language))
    return _compiled(letter, identity, url, base_url, brand, date, key="confirm", reply_to=reply_to)


def compile_notice(
    *, from_address: Address, subject: str, text: str, date: datetime, key: str
) -> Mailing:
    """Compile a plain-text notice. With the same `key`, it has the same Message-ID."""
    return assemble(
        list_identity(ListName("postroom"), "Postroom", from_address),
        subject=[subject],
        date=date,
        key="notice",
        scope=key,
        more_headers=_AUTOMATIC,
        parts=[BodyPart("text/plain", [text])],
    )


def compile_address_change(
    *,
    list_name: ListName,
    description: str,
    from_address: Address,
    base_url: str,
    date: datetime,
    token: str,
    language: str = "",
    list_language: str = LANGUAGES[0],
    brand: Brand = _PLAIN,
) -> Mailing:
    """Compile the email that asks the owner of a subscriber's new address to confirm it. The
    language and `date` mean the same as in `compile_confirmation`."""
    identity = list_identity(list_name, description, from_address)
    url = address_change_link(base_url, identity.list_name, token, known_language(language))
    letter = _address_change(Translator(known_language(language) or list_language))
    return _compiled(letter, identity, url, base_url, brand, date, key="address")


def compile_changes(
    *,
    list_name: ListName,
    description: str,
    from_address: Address,
    base_url: str,
    date: datetime,
    changes: str,
    language: str = "",
    list_language: str = LANGUAGES[0],
    brand: Brand = _PLAIN,
    reply_to: str = "",
) -> Mailing:
    """Compile the email that asks a subscriber to confirm what they gave when they signed up again.
    The language and `date` mean the same as in `compile_confirmation`."""
    identity = list_identity(list_name, description, from_address)
    link = confirm_changes_link(base_url, identity.list_name, changes, known_language(language))
    url = f"{link.before}{_GUID}{link.after}"
    letter = _changes(Translator(known_language(language) or list_language))
    return _compiled(letter, identity, url, base_url, brand, date, key="changes", reply_to=reply_to)


class _Letter(msgspec.Struct, frozen=True):
    """The texts of an email with one button, in one language; `%(list)s` and `%(email)s` are still
    to be filled in."""

    translator: Translator
    subject: str
    title: str
    asked: str
    please: str
    ignore: str
    button: str

    def filled(self, text: str, shown_list: str) -> str:
        return self.translator.filled(text, list=shown_list, email=_EMAIL)


def _confirmation(_: Translator) -> _Letter:
    return _Letter(
        _,
        subject=_("Please confirm your subscription to %(list)s"),
        title=_("Confirm your subscription"),
        asked=_("Someone, most likely you, asked us to send %(list)s to %(email)s."),
        please=_("Please confirm that you want to receive it:"),
        ignore=_("If it was not you, just ignore this email: you will not be subscribed."),
        button=_("Confirm subscription"),
    )


def _address_change(_: Translator) -> _Letter:
    return _Letter(
        _,
        subject=_("Please confirm your new address for %(list)s"),
        title=_("Confirm your new address"),
        asked=_("Someone, most likely you, asked us to send %(list)s to %(email)s from now on."),
        please=_("Please confirm that this is your address:"),
        ignore=_("If it was not you, just ignore this email: nothing will be changed."),
        button=_("Confirm address"),
    )


def _changes(_: Translator) -> _Letter:
    return _Letter(
        _,
        subject=_("Please confirm your changes for %(list)s"),
        title=_("Confirm your changes"),
        asked=_("Someone, most likely you, signed up %(email)s for %(list)s again, with other"
                " details."),
        please=_("Please confirm that you want to change them:"),
        ignore=_("If it was not you, just ignore this email: nothing will be changed."),
        button=_("Confirm changes"),
    )  # fmt: skip


def _compiled(
    letter: _Letter,
    identity: ListIdentity,
    url: str,
    base_url: str,
    brand: Brand,
    date: datetime,
    key: str,
    reply_to: str = "",
) -> Mailing:
    logo = logo_url(identity.list_name, brand.logo, base_url)
    document = _html(letter, identity, url, brand, logo)
    return assemble(
        identity,
        subject=[letter.filled(letter.subject, identity.description)],
        date=date,
        key=key,
        scope=f"{identity.list_name} {date.timestamp():.6f}",
        more_headers=_AUTOMATIC,
        parts=[
            BodyPart("text/plain", _segments(_text(letter, identity, url, brand), in_html=False)),
            BodyPart("text/html", _segments(document, in_html=True)),
        ],
        reply_to=reply_to,
    )


def standard_confirmation(language: str) -> ListEmail:
    """Return the standard confirmation as a text that can be edited."""
    letter = _confirmation(Translator(language))
    description = "{{ list_description }}"
    asked = letter.asked % {"list": f"**{description}**", "email": "{{ email }}"}
    button = f"[{letter.button}]({{{{ confirm_url }}}})"
    text = [f"# {letter.title}", asked, letter.please, button, letter.ignore]
    return ListEmail(letter.subject % {"list": description}, "\n\n".join(text))


def standard_welcome(language: str) -> ListEmail:
    """Return the standard welcome email as a text that can be edited."""
    _ = Translator(language)
    title, description = _("Welcome!"), "**{{ list_description }}**"
    fact = _("%(email)s is subscribed to %(list)s.", email="{{ email }}", list=description)
    # Spam filters take a tag between a quotation mark and a word for a disguise.
    fact = fact.replace("«**", "**«").replace("**»", "»**")
    hint = _("Unsubscribe any time with the link in every email.")
    return ListEmail(title, "\n\n".join([f"# {title}", fact, hint]))


def compile_own_confirmation(
    *,
    list_name: ListName,
    description: str,
    from_address: Address,
    base_url: str,
    date: datetime,
    subject: str,
    html_content: str,
    text: str,
    language: str = "",
    list_language: str = LANGUAGES[0],
    brand: Brand = _PLAIN,
    reply_to: str = "",
) -> Mailing:
    """Compile the confirmation in the list's own words. Its texts have the merge fields `email`,
    `list_description` and `confirm_url`; the rest means the same as in `compile_confirmation`."""
    identity = list_identity(list_name, description, from_address)
    link = confirm_link(base_url, identity.list_name, known_language(language))
    url = f"{link.before}{_GUID}{link.after}"
    values = {"email": _EMAIL, "list_description": identity.description, "confirm_url": url}
    shown = {name: html.escape(value) for name, value in values.items()}
    title = _filled(subject, values)
    shown_in = known_language(language) or list_language
    document = BrandedFrame(brand).whole(
        language=shown_in,
        name=identity.description,
        title=html.escape(title),
        preheader="",
        content=[_filled(html_content, shown)],
        logo=logo_url(list_name, brand.logo, base_url),
    )
    plain = f"{_filled(text, values)}\n{text_footer(brand, shown_in)}"
    return assemble(
        identity,
        subject=[title],
        date=date,
        key="confirm",
        scope=f"{identity.list_name} {date.timestamp():.6f}",
        more_headers=_AUTOMATIC,
        parts=[
            BodyPart("text/plain", _segments(plain, in_html=False)),
            BodyPart("text/html", _segments(document, in_html=True)),
        ],
        reply_to=reply_to,
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    return FIELD.sub(lambda found: values.get(found[1], found[0]), text)


def _text(letter: _Letter, identity: ListIdentity, url: str, brand: Brand) -> str:
    return _TEXT.format(
        title=letter.title,
        asked=letter.filled(letter.asked, identity.description),
        please=letter.please,
        ignore=letter.ignore,
        link=url,
        footer=text_footer(brand, letter.translator.language),
    )


def _html(letter: _Letter, identity: ListIdentity, url: str, brand: Brand, logo: str) -> str:
    _, frame, shown = letter.translator, BrandedFrame(brand), html.escape(identity.description)
    url = html.escape(url)
    or_copy = _("If the button does not work, open this address in your browser:")
    return frame.whole(
        language=_.language,
        name=identity.description,
        title=letter.filled(letter.subject, shown),
        preheader=letter.filled(letter.asked, shown),
        content=[
            frame.heading(letter.title),
            frame.paragraph(letter.filled(letter.asked, f"<strong>{shown}</strong>")),
            frame.paragraph(letter.please),
            frame.button(letter.button, url),
            frame.rule(),
            frame.small(f"{or_copy}<br>\n{frame.address(url)}"),
            frame.small(letter.ignore),
        ],
        logo=logo,
    )


def _segments(body: str, *, in_html: bool) -> list[str | Slot]:
    email = Slot.EMAIL_IN_HTML if in_html else Slot.EMAIL_IN_TEXT
    segments: list[str | Slot] = []
    for position, between in enumerate(body.split(_EMAIL)):
        segments += [email] if position else []
        for inner, piece in enumerate(between.split(_GUID)):
            segments += [Slot.GUID] if inner else []
            segments += [piece] if piece else []
    return segments
