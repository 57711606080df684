"""The settings of bounces and complaints."""

from __future__ import annotations

import base64
import re

from postroom.domain.audience.addresses import Address
from postroom.settings import parsing
from postroom.settings.declaring import SettingGroup, setting


def _check_mailbox(url: str) -> None:
    from postroom.inbound.mailbox_connections import (
        parse_mailbox_url,
    )  # late: few processes need IMAP

    parse_mailbox_url(url)


_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?")


def _check_topics(text: str) -> None:
    for each in parsing.words(text):
        if not _TOPIC.fullmatch(each):
            expected = "must be ARNs such as arn:aws:sns:eu-west-1:123456789012:bounces"
            raise parsing.RefusedValue(expected, each)


def _check_verification_key(text: str) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePublicKey,
    )  # late: few processes need it
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(base64.b64decode(text))
    except ValueError:  # also `binascii.Error`
        key = None
    if not isinstance(key, EllipticCurvePublicKey):
        expected = "must be the verification key as SendGrid shows it, which begins with MFkw"
        raise parsing.RefusedValue(expected)


class BounceSettings(SettingGroup, frozen=True):
    """Where bounces go, and how they come in."""

    domain: str = setting(
        "bounce_domain",
        "",
        "A separate domain for bounces, such as bounce.example.com: each email gets a signed"
        " envelope sender there. Its MX must lead to Postroom's mail listener. All machines need"
        " the same secret_key.",
        parsing.domain,
        storable=True,
    )
    address: Address | None = setting(
        "bounce_address",
        "",
        "One address that receives all bounces, instead of bounce_domain. If neither is set,"
        " bounces go to the list's From address.",
        parsing.optional(parsing.email_address),
        storable=True,
    )
    port: int | None = setting(
        "inbound_port",
        "",
        "The port on which Postroom receives bounces from your mail server; empty: none.",
        parsing.optional(parsing.whole_number(1, 65535, also=0)),
        storable=True,
    )
    bind: str = setting(
        "inbound_bind",
        "127.0.0.1",
        "The address that the mail listener listens on.",
        str,
        storable=True,
        check=parsing.ip_address,
    )
    protocol: str = setting(
        "inbound_protocol",
        "lmtp",
        "The protocol between your mail server and the mail listener: lmtp or smtp.",
        parsing.one_of("lmtp", "smtp"),
        storable=True,
    )
    connections: int = setting(
        "inbound_connections",
        "50",
        "How many connections the mail listener accepts at the same time.",
        parsing.whole_number(1, 1000),
    )
    certificate: str = setting(
        "inbound_certificate",
        "",
        "A PEM file with the certificate of the mail listener, which then offers STARTTLS. It is"
        " read again when it is renewed.",
        str,
    )
    certificate_key: str = setting(
        "inbound_key",
        "",
        "A PEM file with the key of the certificate; empty: it is in the same file.",
        str,
    )
    mailbox: str = setting(
        "bounce_mailbox",
        "",
        "A mailbox to fetch bounces from, such as imaps://user:password@mail.example.com/INBOX;"
        " also imap://, pop3s:// and pop3://. Fetched emails are moved to the folder Postroom, or"
        " to ?processed=FOLDER; POP3 deletes them.",
        parsing.url_of("imaps://", "imap://", "pop3s://", "pop3://"),
        is_url=True,
        storable=True,
        check=_check_mailbox,
    )
    ses_topics: tuple[str, ...] = setting(
        "ses_topics",
        "",
        "The SNS topics of Amazon SES whose events are accepted, as ARNs separated by commas.",
        parsing.words,
        storable=True,
        check=_check_topics,
    )
    sendgrid_webhook_key: str = setting(
        "sendgrid_webhook_key",
        "",
        "The verification key of SendGrid's signed event webhook.",
        str,
        storable=True,
        check=_check_verification_key,
    )
    mailgun_webhook_key: str = setting(
        "mailgun_webhook_key", "", "Mailgun's webhook signing key.", str, secret=True, storable=True
    )
    postmark_webhook_secret: str = setting(
        "postmark_webhook_secret",
        "",
        "A secret of your choice in the URL of Postmark's webhook; at least 16 characters.",
        parsing.shared_secret,
        secret=True,
        storable=True,
    )
    brevo_webhook_secret: str = setting(
        "brevo_webhook_secret",
        "",
        "The same for Brevo.",
        parsing.shared_secret,
        secret=True,
        storable=True,
    )
    sparkpost_webhook_secret: str = setting(
        "sparkpost_webhook_secret",
        "",
        "The same for SparkPost.",
        parsing.shared_secret,
        secret=True,
        storable=True,
    )
    azure_webhook_secret: str = setting(
        "azure_webhook_secret",
        "",
        "The same for Azure Communication Services (Event Grid).",
        parsing.shared_secret,
        secret=True,
        storable=True,
    )

    @property
    def has_hooks(self) -> bool:
        """Whether the webhook of a provider is set up."""
        return any(
            (
                self.ses_topics,
                self.sendgrid_webhook_key,
                self.mailgun_webhook_key,
                self.postmark_webhook_secret,
                self.brevo_webhook_secret,
                self.sparkpost_webhook_secret,
                self.azure_webhook_secret,
            )
        )
