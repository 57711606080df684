"""Reads an email that arrived at a bounce address: what it is (`mail_kinds.py`), and what it says
about which recipient (`status_reports.py`). Nothing here knows subscribers.

Machine-readable parts come first (RFC 3464 and RFC 5965), then the headers and texts of systems
that have none (qmail, Exchange, Domino, old Exim, Yahoo, Gmail).
"""

from __future__ import annotations

import email
from email.errors import MessageError
from email.message import Message

import msgspec

from postroom.mail.bounces.mail_kinds import MailKind, mail_kind_of
from postroom.mail.bounces.returned_text import (
    header_text,
    own_text,
    paragraphs,
    returned_recipients,
    text_of,
)
from postroom.mail.bounces.status_reports import RecipientReport, guessed_reports, status_reports

_MOST_PARTS = 1000
"""Parts of an email that are looked at. What is said about recipients is in the first few."""


class ReturnedMail(msgspec.Struct, frozen=True):
    """What was read. `text` is what the mail system itself wrote, in paragraphs; `searched` is all
    text in which our own identifiers may be found, the most trustworthy first."""

    kind: MailKind
    reports: tuple[RecipientReport, ...] = ()
    text: tuple[str, ...] = ()
    searched: str = ""
    message_id: str = ""
    returned_to: tuple[str, ...] = ()
    """The recipients in the header of the returned email."""


def read_mail(raw: bytes) -> ReturnedMail:
    """Return what an email is and says. Anything can be read: an email that makes no sense is
    ordinary."""
    try:
        message = email.message_from_bytes(_first_parts(raw))
        return _read(message)
    except (MessageError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        # The standard library's parser raises these for emails that someone broke on purpose.
        return ReturnedMail(MailKind.ORDINARY)


def _first_parts(raw: bytes) -> bytes:
    """Return an email without what follows so many lines that may be boundaries: each part takes
    much longer to read than to send."""
    end = 0
    for _ in range(_MOST_PARTS):
        end = raw.find(b"\n--", end + 1)
        if end < 0:
            return raw
    return raw[:end]


def _read(message: Message) -> ReturnedMail:
    text = own_text(message)
    reports = status_reports(message)
    kind = mail_kind_of(message, text, has_reports=bool(reports))
    if kind is MailKind.BOUNCE and not reports:
        reports = guessed_reports(message)
    return ReturnedMail(
        kind,
        reports,
        tuple(paragraphs(text)),
        _searched(message),
        header_text(message, "message-id") or header_text(message, "date"),
        tuple(returned_recipients(message)),
    )


def _searched(message: Message) -> str:
    """Return headers and texts that may contain our identifiers: the recipient of the bounce
    first, then the returned email, then everything else."""
    texts = [str(message.get(each, "")) for each in ("delivered-to", "x-original-to", "to")]
    for part in message.walk():
        if part is not message:
            texts += [f"{name}: {value}" for name, value in part.items()]
        if not part.is_multipart():
            texts.append(text_of(part))
    return "\n".join(texts)
