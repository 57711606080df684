"""Amazon SES, whose events come through Amazon SNS.

docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html: an RSA signature over some
fields, with a certificate of SNS. Any AWS account gets valid signatures, so the topics that count
are named in the setting `ses_topics`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from postroom.domain.messages.delivery.bounces import BounceKind, BounceSource
from postroom.services.audience.bounces.providers.hook_requests import (
    HookDecision,
    HookRefused,
    HookRequest,
    ProviderHook,
    as_text,
    objects,
    parse_json,
    text_at,
)
from postroom.services.audience.bounces.reports import BounceReport, provider_verdict

_HOST = re.compile(r"sns\.[a-z0-9-]{3,40}\.amazonaws\.com(\.cn)?")
# The whole URL: other paths of the same host return text that anyone can choose.
_CERTIFICATE = re.compile(
    rf"https://{_HOST.pattern}/SimpleNotificationService-[0-9a-f]{{4,64}}\.pem"
)
_NOTIFICATION: Final = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION: Final = (
    "Message",
    "MessageId",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
)
_SECONDS = 10.0
_LARGEST_CERTIFICATE = 64 * 1024
_KINDS: Final = {
    "MailboxFull": BounceKind.FULL,
    "MessageTooLarge": BounceKind.CONTENT,
    "ContentRejected": BounceKind.CONTENT,
    "AttachmentRejected": BounceKind.CONTENT,
    "UnsubscribedRecipient": BounceKind.UNKNOWN,  # from a contact list of SES
}

Fetch = Callable[[str], bytes]


def fetch(url: str) -> bytes:
    """Return what is at a URL of Amazon SNS."""
    with urllib.request.urlopen(url, timeout=_SECONDS) as response:  # noqa: S310 - see `_is_sns`
        found: bytes = response.read(_LARGEST_CERTIFICATE)
        return found


class AmazonSes(ProviderHook):
    source = BounceSource.SES
    setting = "ses_topics"
    headers = {"X-SES-MESSAGE-TAGS": "postroom=TOKEN"}  # noqa: RUF012

    def __init__(self, fetch: Fetch = fetch) -> None:
        self._fetch = fetch
        self._certificates: dict[str, bytes] = {}

    async def verify(self, request: HookRequest, secret: Any) -> HookDecision:
        event = parse_json(request.body)
        if text_at(event, "TopicArn") not in secret:
            raise HookRefused(403, "this topic is not among POSTROOM_SES_TOPICS")
        await self._check_signature(event)
        if text_at(event, "Type") == "Notification":
            return HookDecision()
        url = text_at(event, "SubscribeURL")
        is_new = text_at(event, "Type") == "SubscriptionConfirmation"
        return HookDecision(keeps=False, visit=url if is_new and _is_sns(url) else "")

    async def _check_signature(self, event: dict[str, Any]) -> None:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import padding, rsa
        from cryptography.hazmat.primitives.hashes import SHA1, SHA256

        url = text_at(event, "SigningCertURL")
        if not _CERTIFICATE.fullmatch(url):
            raise HookRefused(403, "the certificate is not one of Amazon SNS")
        try:
            key = x509.load_pem_x509_certificate(await self._certificate(url)).public_key()
            signature = base64.b64decode(text_at(event, "Signature"), validate=True)
            is_new = text_at(event, "SignatureVersion") == "2"
            if not isinstance(key, rsa.RSAPublicKey):
                raise HookRefused(403, "the certificate has no RSA key")
            # Version 1 is SHA-1, which is still what topics use unless they are set up otherwise.
            algorithm = SHA256() if is_new else SHA1()  # noqa: S303
            key.verify(signature, _signed(event), padding.PKCS1v15(), algorithm)
        except (InvalidSignature, UnsupportedAlgorithm, binascii.Error, ValueError) as exc:
            raise HookRefused(403, "the signature is wrong") from exc
        except (OSError, HTTPException) as exc:
            raise HookRefused(503, f"the certificate cannot be read: {exc}") from exc

    async def _certificate(self, url: str) -> bytes:
        if url not in self._certificates:
            found = await asyncio.to_thread(self._fetch, url)
            self._certificates = {**dict(list(self._certificates.items())[-3:]), url: found}
        return self._certificates[url]

    async def visit(self, url: str) -> None:
        """Confirm a subscription. `OSError`."""
        await asyncio.to_thread(self._fetch, url)

    def reports(self, content: bytes) -> list[BounceReport]:
        event = parse_json(content)
        inner = parse_json(text_at(event, "Message").encode() or b"{}")
        kind = text_at(inner, "notificationType") or text_at(inner, "eventType")
        searched = as_text(inner)
        if kind == "Bounce":
            return [self._bounce(inner, each, searched) for each in _recipients(inner, kind)]
        if kind == "Complaint" and text_at(inner, "complaint", "complaintFeedbackType") not in (
            "not-spam",
            "auth-failure",
        ):
            return [self._complaint(inner, each, searched) for each in _recipients(inner, kind)]
        return []

    def _bounce(
        self, inner: dict[str, Any], recipient: dict[str, Any], searched: str
    ) -> BounceReport:
        address = text_at(recipient, "emailAddress")
        kind = _KINDS.get(text_at(inner, "bounce", "bounceSubType"))
        if kind is None:
            types = {"Permanent": BounceKind.GONE, "Transient": BounceKind.TEMPORARY}
            kind = types.get(text_at(inner, "bounce", "bounceType"), BounceKind.UNKNOWN)
        reply, status = text_at(recipient, "diagnosticCode"), text_at(recipient, "status")
        key = f"{text_at(inner, 'bounce', 'feedbackId')},{address}"
        return BounceReport((address,), provider_verdict(kind, reply, status), searched, key)

    def _complaint(
        self, inner: dict[str, Any], recipient: dict[str, Any], searched: str
    ) -> BounceReport:
        address = text_at(recipient, "emailAddress")
        text = text_at(inner, "complaint", "complaintFeedbackType") or "complaint"
        key = f"{text_at(inner, 'complaint', 'feedbackId')},{address}"
        verdict = provider_verdict(BounceKind.COMPLAINT, text)
        return BounceReport((address,), verdict, searched, key)


def _recipients(inner: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the recipients that the event is about, not all recipients of the email."""
    part, name = (
        ("bounce", "bouncedRecipients")
        if kind == "Bounce"
        else ("complaint", "complainedRecipients")
    )
    about = inner.get(part)
    return list(objects(about.get(name) or [])) if isinstance(about, dict) else []


def _is_sns(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" and _HOST.fullmatch(parts.netloc) is not None


def _signed(event: dict[str, Any]) -> bytes:
    names = _NOTIFICATION if text_at(event, "Type") == "Notification" else _CONFIRMATION
    return "".join(f"{name}\n{event[name]}\n" for name in names if event.get(name)).encode()
