"""Emails that Postroom writes itself: confirmation requests to subscribers, notices to operators.

They have no unsubscribe link: a subscriber who does not confirm is on no list.
"""

from __future__ import annotations

import html
from datetime import datetime
from typing import Final

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.brand import Brand
from postroom.domain.audience.lists import ListName
from postroom.domain.languages import LANGUAGES, known_language
from postroom.mail.assembly import Link, ListIdentity, assemble, confirm_link, list_identity
from postroom.mail.body_encoding import BodyPart, Pieces, Slot
from postroom.mail.branded_frame import BrandedFrame, text_footer
from postroom.mail.mailing import Mailing
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
) -> Mailing:
    """Compile the email that asks a subscriber to confirm, in the list's brand.

    It is in the language of the sign-up, and so is the page behind its link. If that is unknown,
    the email is in the list's language, and the browser decides about the page. `date` is when the
    confirmation was requested: another attempt with the same date has the same Message-ID, another
    request has a new one, so that no server takes it for a duplicate.
    """
    identity = list_identity(list_name, description, from_address)
    link = confirm_link(base_url, identity.list_name, known_language(language))
    _ = Translator(known_language(language) or list_language)
    return assemble(
        identity,
        subject=[_confirm_subject(_, identity.description)],
        date=date,
        key="confirm",
        scope=f"{identity.list_name} {date.timestamp():.6f}",
        more_headers=_AUTOMATIC,
        parts=[
            BodyPart("text/plain", _segments(_text(_, identity, link, brand), in_html=False)),
            BodyPart("text/html", _segments(_html(_, identity, link, brand), in_html=True)),
        ],
    )


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


def _confirm_subject(_: Translator, description: str) -> str:
    return _("Please confirm your subscription to %(list)s", list=description)


def _sentences(_: Translator, shown_list: str) -> dict[str, str]:
    return {
        "title": _("Confirm your subscription"),
        "asked": _(
            "Someone, most likely you, asked us to send %(list)s to %(email)s.",
            list=shown_list,
            email=_EMAIL,
        ),
        "please": _("Please confirm that you want to receive it:"),
        "ignore": _("If it was not you, just ignore this email: you will not be subscribed."),
    }


def _text(_: Translator, identity: ListIdentity, link: Link, brand: Brand) -> str:
    return _TEXT.format(
        **_sentences(_, identity.description),
        link=f"{link.before}{_GUID}{link.after}",
        footer=text_footer(brand),
    )


def _html(_: Translator, identity: ListIdentity, link: Link, brand: Brand) -> str:
    frame, shown = BrandedFrame(brand), html.escape(identity.description)
    texts = _sentences(_, f"<strong>{shown}</strong>")
    url = html.escape(f"{link.before}{_GUID}{link.after}")
    or_copy = _("If the button does not work, open this address in your browser:")
    return frame.whole(
        language=_.language,
        name=identity.description,
        title=_confirm_subject(_, shown),
        preheader=_sentences(_, shown)["asked"],
        content=[
            frame.heading(texts["title"]),
            frame.paragraph(texts["asked"]),
            frame.paragraph(texts["please"]),
            frame.button(_("Confirm subscription"), url),
            frame.rule(),
            frame.small(f"{or_copy}<br>\n{frame.address(url)}"),
            frame.small(texts["ignore"]),
        ],
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
