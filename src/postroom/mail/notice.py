"""A short mail to whoever looks after Postroom."""

from __future__ import annotations

from datetime import datetime

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName
from postroom.mail.assembly import assembled, sender_of
from postroom.mail.mailing import Mailing
from postroom.mail.parts import Part


def compile_notice(
    *, from_address: Address, subject: str, text: str, date: datetime, key: str
) -> Mailing:
    """Plain text. `key` makes its Message-ID: the same notice, tried again, has the same one."""
    sender = sender_of(ListName("postroom"), "Postroom", from_address)
    return assembled(
        sender,
        subject=[subject],
        date=date,
        key="notice",
        scope=key,
        more_headers=[b"Auto-Submitted: auto-generated\r\n"],
        parts=[Part("text/plain", [text])],
    )
