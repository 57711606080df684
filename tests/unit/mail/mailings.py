"""Mailings for tests, with everything that a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.brand import Brand
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.messages.refs import MessageRef
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.bounces.envelope_tokens import EnvelopeTokens
from postroom.mail.compose import compile_mailing
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.personal.merge_fields import Columns
from postroom.mail.system_mail import compile_confirmation

GUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER_GUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
DATE = datetime(2026, 11, 15, 7, 28, 20, tzinfo=UTC)
REF = "638987654321098765"
URL = f"https://lists.example.com/unsubscribe?id={GUID}&listName=contoso1&ref={REF}"
LEAVE = "{{ unsubscribe_url }}"


def recipient(
    address: str = "anna@example.org", guid: str = GUID, values: Sequence[str] = ()
) -> Recipient:
    return Recipient(Address(address), SubscriberGuid(guid), values)


def mailing(
    *,
    ref: str = REF,
    subject: str = "News",
    html: str | None = None,
    text: str | None = None,
    list_name: str = "contoso1",
    description: str = "Contoso news",
    from_address: str = "news@contoso.example",
    base_url: str = "https://lists.example.com",
    date: datetime = DATE,
    language: str = "en",
    postal_address: str = "",
    preheader: str = "",
    from_name: str = "",
    reply_to: str = "",
    headers: str = "",
    attachments: Sequence[AttachedFile] = (),
    fields: Sequence[str] = (),
    conditions: Sequence[str] = (),
    envelope: EnvelopeTokens | None = None,
) -> Mailing:
    return compile_mailing(
        ref=MessageRef(ref),
        subject=subject,
        html=html,
        text="Hello" if html is None and text is None else text,
        list_name=ListName(list_name),
        description=description,
        from_address=Address(from_address),
        base_url=base_url,
        date=date,
        language=language,
        postal_address=postal_address,
        preheader=preheader,
        from_name=from_name,
        reply_to=reply_to,
        headers=headers,
        attachments=attachments,
        columns=Columns(tuple(fields), tuple(conditions)),
        envelope=envelope,
    )


def confirmation(
    *,
    list_name: str = "contoso1",
    description: str = "Contoso news",
    from_address: str = "news@contoso.example",
    base_url: str = "https://lists.example.com",
    date: datetime = DATE,
    language: str = "",
    list_language: str = "en",
    brand: Brand | None = None,
) -> Mailing:
    return compile_confirmation(
        list_name=ListName(list_name),
        description=description,
        from_address=Address(from_address),
        base_url=base_url,
        date=date,
        language=language,
        list_language=list_language,
        brand=brand or Brand(),
    )
