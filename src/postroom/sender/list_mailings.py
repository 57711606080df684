"""The emails that a list sends automatically, compiled: in its own or the standard words."""

from __future__ import annotations

import html
from datetime import datetime
from typing import Any, Final

import msgspec

from postroom import clock
from postroom.composing.list_email_bodies import compose_list_email
from postroom.domain.audience.lists.brand import logo_url
from postroom.domain.audience.lists.list_emails import ListEmail, ListEmailKind
from postroom.domain.audience.lists.lists import MailingList
from postroom.domain.languages import known_language
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bodies.branded_frame import BrandedFrame, text_footer
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.personal.merge_fields import Columns, Personal, columns_in
from postroom.mail.system_mail import (
    compile_changes,
    compile_confirmation,
    compile_own_confirmation,
)
from postroom.services.audience.list_emails import standard_email
from postroom.translations import Translator

_PREFERENCES: Final = "{{ preferences_url }}"
_UNSUBSCRIBE: Final = "{{ unsubscribe_url }}"


def confirmation_mailing(
    mailing_list: MailingList,
    base_url: str,
    date: datetime,
    language: str = "",
    own: ListEmail | None = None,
) -> Mailing:
    """Compile the email that asks a subscriber to confirm; `own` instead of the stored text.
    `language` and `date`: see `compile_confirmation`."""
    shown = known_language(language) or mailing_list.language
    own = own or mailing_list.own_emails(ListEmailKind.CONFIRMATION).get(shown)
    common: dict[str, Any] = {
        "list_name": mailing_list.name,
        "description": mailing_list.description,
        "from_address": mailing_list.from_address,
        "base_url": base_url,
        "date": date,
        "language": language,
        "list_language": mailing_list.language,
        "brand": mailing_list.brand,
        "reply_to": mailing_list.reply_to,
    }
    if own is None:
        return compile_confirmation(**common)
    composed = compose_list_email(own, mailing_list.brand)
    return compile_own_confirmation(
        **common, subject=composed.subject, html_content=composed.html, text=composed.text
    )


def changes_mailing(
    mailing_list: MailingList, base_url: str, date: datetime, changes: str, language: str = ""
) -> Mailing:
    """Compile the email that asks a subscriber to confirm other details; `changes` stands for them
    in the link. `language` and `date`: see `compile_confirmation`."""
    return compile_changes(
        list_name=mailing_list.name,
        description=mailing_list.description,
        from_address=mailing_list.from_address,
        base_url=base_url,
        date=date,
        changes=changes,
        language=language,
        list_language=mailing_list.language,
        brand=mailing_list.brand,
        reply_to=mailing_list.reply_to,
    )


def sample_mail(
    mailing_list: MailingList,
    kind: ListEmailKind,
    language: str,
    own: ListEmail,
    base_url: str,
    to: Recipient,
    personal: Personal,
) -> tuple[Mailing, Recipient]:
    """Compile a text that is being edited, as a preview or a test shows it to someone. A standard
    text looks as it does when it is sent. `Invalid`."""
    is_standard = own == standard_email(kind, language)
    text, now = None if is_standard else own, clock.now()
    if kind is ListEmailKind.CONFIRMATION:
        unset = msgspec.structs.replace(mailing_list, confirmation_emails="")
        return confirmation_mailing(unset, base_url, now, language, text), to
    mailing, columns = welcome_mailing(mailing_list, base_url, now, language, own)
    return mailing, msgspec.structs.replace(to, values=personal.of(columns, now.date()))


def welcome_mailing(
    mailing_list: MailingList,
    base_url: str,
    date: datetime,
    language: str = "",
    own: ListEmail | None = None,
) -> tuple[Mailing, Columns]:
    """Compile the email that welcomes a subscriber, and say which values it needs. Another attempt
    with the same `date` has the same Message-ID."""
    shown = known_language(language) or mailing_list.language
    kind = ListEmailKind.WELCOME
    own = own or mailing_list.own_emails(kind).get(shown) or standard_email(kind, shown)
    composed = compose_list_email(own, mailing_list.brand)
    _ = Translator(shown)
    frame = BrandedFrame(mailing_list.brand)
    links = (
        f"{frame.link(_('Preferences'), _PREFERENCES)} &nbsp;·&nbsp;"
        f" {frame.link(_('Unsubscribe'), _UNSUBSCRIBE)}"
    )
    document = frame.whole(
        language=shown,
        name=mailing_list.description,
        title=html.escape(own.subject),
        preheader="",
        content=[composed.html, frame.rule(), frame.small(links)],
        logo=logo_url(mailing_list.name, mailing_list.logo, base_url),
    )
    text = (
        f"{composed.text}\n\n{_('Preferences')}: {_PREFERENCES}\n"
        f"{_('Unsubscribe')}: {_UNSUBSCRIBE}\n{text_footer(mailing_list.brand, shown)}"
    )
    columns = columns_in(own.subject, document, text)
    mailing = compile_mailing(
        ref=MessageRef(f"welcome-{date.timestamp():.6f}".replace(".", "-")),
        subject=own.subject,
        html=document,
        text=text,
        list_name=mailing_list.name,
        description=mailing_list.description,
        from_address=mailing_list.from_address,
        base_url=base_url,
        date=date,
        language=shown,
        postal_address=mailing_list.postal_address,
        reply_to=mailing_list.reply_to,
        headers=mailing_list.headers,
        columns=columns,
    )
    return mailing, columns
