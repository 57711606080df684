"""The email that asks whether somebody really wants to be on a list.

It is the one email without an unsubscribe link: whoever does nothing is on no list.
"""

from __future__ import annotations

import html
from datetime import datetime
from typing import Final

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName
from postroom.domain.languages import LANGUAGES, known_language
from postroom.mail.assembly import assembled, sender_of
from postroom.mail.links import Link, confirm_link
from postroom.mail.mailing import Mailing
from postroom.mail.parts import Part
from postroom.mail.quoted import Slot
from postroom.mail.texts import Texts, texts_in

# Stand-ins for what differs from recipient to recipient: no checked text can contain them.
_EMAIL: Final = "\x01"
_GUID: Final = "\x02"

_TEXT: Final = """\
{hello}

{asked}

{please}

{link}

{ignore}
"""
_HTML: Final = """\
<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body style="margin:0;padding:24px;background:#f4f4f4;color:#222222;\
font:16px/1.5 -apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif">
<div style="max-width:520px;margin:0 auto;padding:32px;background:#ffffff;border-radius:8px">
<p style="margin:0 0 16px">{hello}</p>
<p style="margin:0 0 16px">{asked}</p>
<p style="margin:0 0 16px">{please}</p>
<p style="margin:0 0 24px"><a href="{link}" style="display:inline-block;padding:12px 24px;\
background:#1d5fbf;color:#ffffff;border-radius:6px;text-decoration:none;font-weight:bold">\
{button}</a></p>
<p style="margin:0 0 8px;font-size:13px;color:#6b6b6b">{or_copy}<br>
<a href="{link}" style="color:#1d5fbf;word-break:break-all">{link}</a></p>
<p style="margin:16px 0 0;font-size:13px;color:#6b6b6b">{ignore}</p>
</div>
</body>
</html>
"""


def compile_confirmation(
    *,
    list_name: ListName,
    description: str,
    from_address: Address,
    base_url: str,
    date: datetime,
    language: str = "",
    list_language: str = LANGUAGES[0],
) -> Mailing:
    """Write it in the language of the sign-up, in which the link opens the page, too. Where that is
    unknown, the email speaks the list's language, and the browser decides about the page.

    `date` is when the confirmation was asked for: tried again with the same date, the email has the
    same Message-ID; asked for again, it has another, and no server takes it for a duplicate.
    """
    sender = sender_of(list_name, description, from_address)
    link = confirm_link(base_url, sender.list_name, known_language(language))
    texts = texts_in(known_language(language) or list_language)
    return assembled(
        sender,
        subject=[texts.confirm_subject.format(list=sender.description)],
        date=date,
        key="confirm",
        scope=f"{sender.list_name} {date.timestamp():.6f}",
        more_headers=[b"Auto-Submitted: auto-generated\r\n"],
        parts=[
            Part("text/plain", _segments(_text(texts, sender.description, link), in_html=False)),
            Part("text/html", _segments(_html(texts, sender.description, link), in_html=True)),
        ],
    )


def _text(texts: Texts, description: str, link: Link) -> str:
    return _TEXT.format(
        hello=texts.hello,
        asked=texts.asked.format(list=description, email=_EMAIL),
        please=texts.please,
        link=f"{link.before}{_GUID}{link.after}",
        ignore=texts.ignore,
    )


def _html(texts: Texts, description: str, link: Link) -> str:
    shown = html.escape(description)
    return _HTML.format(
        language=texts.language,
        title=texts.confirm_subject.format(list=shown),
        hello=texts.hello,
        asked=texts.asked.format(list=f"<strong>{shown}</strong>", email=_EMAIL),
        please=texts.please,
        button=texts.button,
        link=html.escape(f"{link.before}{_GUID}{link.after}"),
        or_copy=texts.or_copy,
        ignore=texts.ignore,
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
