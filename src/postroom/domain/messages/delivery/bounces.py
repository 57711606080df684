"""Bounces and complaints: what a mail system reported about an email after it was accepted, or what
it replied while the email was being sent. They are recorded next to the email's outcome and never
change it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.refs import MessageRef

BOUNCE_QUEUE = "mail/bounce"
"""Emails and events that may be bounces; each item names a blob in `BOUNCES`."""

BOUNCES = "bounces"
"""The blob container of emails and events as they were received."""

LONGEST_DIAGNOSTIC = 500
"""Characters of a bounce's text that are kept, as of a mail server's reply."""


class BounceKind(StrEnum):
    """What a bounce says. 'Permanent' does not mean 'gone': in real bounces 5.x.x means a dead
    mailbox in only 40% of cases."""

    GONE = "gone"
    """The mailbox or its domain does not exist, or no longer accepts any mail."""

    FULL = "full"
    """The mailbox is full."""

    TEMPORARY = "temporary"
    """The email could not be delivered, but later ones may be."""

    POLICY = "policy"
    """The recipient's provider rejects our email: reputation, block lists, DMARC."""

    CONTENT = "content"
    """This message was rejected: its size, its content, a virus filter."""

    COMPLAINT = "complaint"
    """The recipient marked the email as spam (a feedback report, RFC 5965)."""

    AUTO_REPLY = "auto_reply"
    """A program replied for the recipient: an out-of-office note."""

    CHALLENGE = "challenge"
    """The recipient's filter asks the sender to prove they are human."""

    UNKNOWN = "unknown"
    """The email was not delivered, and the text does not say why."""


class BounceSource(StrEnum):
    """Where a bounce was reported."""

    SENDING = "sending"  # the mail server's reply while the email was being sent
    SMTP = "smtp"
    LMTP = "lmtp"
    PIPE = "pipe"
    API = "api"
    IMAP = "imap"
    POP3 = "pop3"
    SES = "ses"
    SENDGRID = "sendgrid"
    MAILGUN = "mailgun"
    POSTMARK = "postmark"
    BREVO = "brevo"
    SPARKPOST = "sparkpost"
    AZURE = "azure"


class Bounce(msgspec.Struct, frozen=True):
    """One report about one recipient.

    `subscriber` and `ref` come from the signed envelope address, our header or the Message-ID; they
    are never guessed from the address alone. `event_id` is the same whenever the same report
    arrives again.
    """

    kind: BounceKind
    event_id: str
    source: BounceSource
    received_at: datetime
    list_name: ListName | None = None
    subscriber: SubscriberGuid | None = None
    address: Address | None = None
    """The address that the email was sent to, if it is known."""
    ref: MessageRef | None = None
    diagnostic: str = ""
    status: str = ""
    """The enhanced status code (RFC 3463), such as `5.1.1`; empty if there is none."""
    by_code: bool = False
    """Whether `gone` follows from the enhanced status code (x.1.1, x.1.2, x.1.6, x.1.10), not only
    from the text."""
    provider: Provider | None = None
