"""The headers that every mail of ours has, and the mail put together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, domain_of, parse_address
from postroom.domain.audience.lists import ListName, parse_list_name
from postroom.domain.errors import Invalid
from postroom.mail import headers
from postroom.mail.envelope import ascii_domain, envelope_address
from postroom.mail.parts import Part, content
from postroom.mail.placeholders import Source
from postroom.mail.quoted import Pieces, Slot
from postroom.mail.template import MessageIds, SplicedMailing

_KEY: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class Sender(msgspec.Struct, frozen=True):
    """The list as its mails show it; made by `sender_of`, so all of it can stand in headers."""

    list_name: ListName
    description: str
    address: Address

    @property
    def domain(self) -> str:
        return ascii_domain(domain_of(self.address))


def sender_of(list_name: str, description: str, from_address: str) -> Sender:
    """A list without a description is shown by its name."""
    return Sender(
        parse_list_name(list_name),
        headers.checked("description", description).strip() or list_name,
        parse_address(from_address, "from_address"),
    )


def assembled(
    sender: Sender,
    *,
    subject: Sequence[str | Slot],
    date: datetime,
    key: str,
    scope: str,
    more_headers: Pieces,
    parts: Sequence[Part],
) -> SplicedMailing:
    """`key` and `scope`: see `MessageIds`. `more_headers` are whole lines."""
    if not _KEY.fullmatch(key):
        raise Invalid("ref", "cannot stand in a Message-ID")
    mailbox = headers.mailbox(sender.description, envelope_address(sender.address))
    pieces: Pieces = [
        f"From: {mailbox}\r\nTo: ".encode(),
        Slot.TO,
        b"\r\nSubject: ",
        *_subject(subject),
        f"\r\nDate: {headers.date(date)}\r\nMessage-ID: <{key}.".encode("ascii"),
        Slot.MESSAGE_ID,
        f"@{sender.domain}>\r\n".encode("ascii"),
        *more_headers,
        b"MIME-Version: 1.0\r\n",
        *content(parts),
    ]
    return SplicedMailing(
        pieces,
        from_address=sender.address,
        subject="".join(each if isinstance(each, str) else "{{ email }}" for each in subject),
        ids=MessageIds(key, sender.domain, scope),
        source=Source(subject, sender.description, more_headers, parts),
    )


def _subject(segments: Sequence[str | Slot]) -> Pieces:
    """Between an address that is spliced in and the text around it, encoded words are what leaves
    no gap and needs no knowledge of the other."""
    texts = [headers.checked("subject", each) for each in segments if isinstance(each, str)]
    if len(texts) == len(segments):
        whole = "".join(texts)
        if not whole.strip():
            raise Invalid("subject", "must not be empty")
        return [headers.unstructured(whole).encode("ascii")]
    pieces: Pieces = []
    for position, each in enumerate(segments):
        if position:
            pieces.append(headers.FOLD.encode("ascii"))
        if isinstance(each, Slot):
            pieces.append(each)
        else:
            pieces.append(headers.encoded_words(each, headers.IN_TEXT).encode("ascii"))
    return pieces
