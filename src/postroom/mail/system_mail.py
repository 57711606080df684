"""Emails that Postroom writes itself: confirmation requests to subscribers, notices to operators.

They have no unsubscribe link: a subscriber who does not confirm is on no list.
"""

from __future__ import annotations

import html
from datetime import datetime
from typing import Final

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName
from postroom.domain.languages import LANGUAGES, known_language
from postroom.mail.assembly import Link, assemble, confirm_link, list_identity
from postroom.mail.body_encoding import BodyPart, Pieces, Slot
from postroom.mail.mailing import Mailing
from postroom.translations import Translator

# Stand-ins for what differs between recipients: no checked text can contain them.
_EMAIL: Final = "\x01"
_GUID: Final = "\x02"
_AUTOMATIC: Final[Pieces] = [b"Auto-Submitted: auto-generated\r\n"]

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
background:#27509b;color:#ffffff;border-radius:6px;text-decoration:none;font-weight:bold">\
{button}</a></p>
<p style="margin:0 0 8px;font-size:13px;color:#6b6b6b">{or_copy}<br>
<a href="{link}" style="color:#27509b;word-break:break-all">{link}</a></p>
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
    """Compile the email that asks a subscriber to confirm.

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
            BodyPart("text/plain", _segments(_text(_, identity.description, link), in_html=False)),
            BodyPart("text/html", _segments(_html(_, identity.description, link), in_html=True)),
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
        "hello": _("Hello,"),
        "asked": _(
            "Someone, most likely you, asked us to send %(list)s to %(email)s.",
            list=shown_list,
            email=_EMAIL,
        ),
        "please": _("Please confirm that you want to receive it:"),
        "ignore": _("If it was not you, just ignore this email: you will not be subscribed."),
    }


def _text(_: Translator, description: str, link: Link) -> str:
    return _TEXT.format(**_sentences(_, description), link=f"{link.before}{_GUID}{link.after}")


def _html(_: Translator, description: str, link: Link) -> str:
    shown = html.escape(description)
    return _HTML.format(
        **_sentences(_, f"<strong>{shown}</strong>"),
        language=_.language,
        title=_confirm_subject(_, shown),
        button=_("Confirm subscription"),
        link=html.escape(f"{link.before}{_GUID}{link.after}"),
        or_copy=_("If the button does not work, open this address in your browser:"),
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
