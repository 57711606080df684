"""Providers that sign their events: SendGrid and Mailgun."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import timedelta
from typing import Any, Final

from postroom import clock
from postroom.domain.messages.delivery.bounces import (
    LONGEST_DIAGNOSTIC,
    BounceKind,
    BounceSource,
)
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
from postroom.transport.smtp.bounce_verdicts import Verdict

_SIGNATURE = "x-twilio-email-event-webhook-signature"
_TIMESTAMP = "x-twilio-email-event-webhook-timestamp"
_CLASSES = {
    "invalid address": BounceKind.GONE,
    "mailbox unavailable": BounceKind.FULL,
    "technical": BounceKind.TEMPORARY,
    "content": BounceKind.CONTENT,
    "reputation": BounceKind.POLICY,
    "frequency/volume": BounceKind.POLICY,
}
_NO_MX: Final = "unable to get mx info"
OLDEST: Final = timedelta(days=2)
"""Mailgun tries for eight hours; a token may be forgotten once it is too old to be accepted."""
_MAILGUN_REASONS = {
    "suppress-bounce": BounceKind.GONE,
    "suppress-complaint": BounceKind.COMPLAINT,
    "espblock": BounceKind.POLICY,
    "old": BounceKind.TEMPORARY,
}


class SendgridEvents(ProviderHook):
    """An ECDSA signature over timestamp and body (twilio.com/docs/sendgrid, "Getting Started with
    the Event Webhook Security Features")."""

    source = BounceSource.SENDGRID
    setting = "sendgrid_webhook_key"
    headers = {"X-SMTPAPI": '{"unique_args":{"postroom":"TOKEN"}}'}  # noqa: RUF012

    async def verify(self, request: HookRequest, secret: Any) -> HookDecision:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        signed = request.headers.get(_TIMESTAMP, "").encode() + request.body
        try:
            key = load_der_public_key(base64.b64decode(secret))
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise HookRefused(403, "POSTROOM_SENDGRID_WEBHOOK_KEY is not an ECDSA key")
            signature = base64.b64decode(request.headers.get(_SIGNATURE, ""), validate=True)
            key.verify(signature, signed, ec.ECDSA(SHA256()))
        except (InvalidSignature, binascii.Error, ValueError) as exc:
            raise HookRefused(403, "the signature is wrong") from exc
        parse_json(request.body)
        return HookDecision()

    def reports(self, content: bytes) -> list[BounceReport]:
        found = []
        for event in objects(parse_json(content)):
            kind = _sendgrid_kind(event)
            if kind is None:
                continue
            reason, status = text_at(event, "reason"), text_at(event, "status")
            key = text_at(event, "sg_event_id")
            verdict = provider_verdict(kind, reason, status)
            if reason.startswith(_NO_MX):  # SendGrid's own words, not those of a mail server
                verdict = Verdict(
                    _sendgrid_class(event) or BounceKind.TEMPORARY, text=reason[:LONGEST_DIAGNOSTIC]
                )
            found.append(BounceReport((text_at(event, "email"),), verdict, as_text(event), key))
        return found


def _sendgrid_class(event: dict[str, Any]) -> BounceKind | None:
    return _CLASSES.get(text_at(event, "bounce_classification").lower())


def _sendgrid_kind(event: dict[str, Any]) -> BounceKind | None:
    match text_at(event, "event"):
        case "spamreport":
            return BounceKind.COMPLAINT
        case "bounce":
            known = _sendgrid_class(event)
            is_blocked = text_at(event, "type") == "blocked"
            return known or (BounceKind.POLICY if is_blocked else BounceKind.UNKNOWN)
        case "dropped":
            is_invalid = text_at(event, "reason").lower() in ("bounced address", "invalid")
            return BounceKind.GONE if is_invalid else None
        case _:
            return None


class MailgunEvents(ProviderHook):
    """An HMAC over timestamp and token (documentation.mailgun.com, "Securing Webhooks"). The body
    is not signed, so each token is accepted only once."""

    source = BounceSource.MAILGUN
    setting = "mailgun_webhook_key"
    headers = {"X-Mailgun-Variables": '{"postroom":"TOKEN"}'}  # noqa: RUF012

    async def verify(self, request: HookRequest, secret: Any) -> HookDecision:
        signature = parse_json(request.body)
        timestamp = text_at(signature, "signature", "timestamp")
        token = text_at(signature, "signature", "token")
        expected = hmac.new(secret.encode(), f"{timestamp}{token}".encode(), hashlib.sha256)
        given = text_at(signature, "signature", "signature")
        if not token or not hmac.compare_digest(expected.hexdigest().encode(), given.encode()):
            raise HookRefused(403, "the signature is wrong")
        age = clock.now().timestamp() - float(timestamp or 0)
        if abs(age) > OLDEST.total_seconds():
            raise HookRefused(406, "the event is too old")
        return HookDecision(once=token)

    def reports(self, content: bytes) -> list[BounceReport]:
        found = parse_json(content)
        event = found.get("event-data") if isinstance(found, dict) else None
        if not isinstance(event, dict) or (kind := _mailgun_kind(event)) is None:
            return []
        status = event.get("delivery-status")
        code, text = text_at(status, "code"), text_at(status, "message")
        text = text or text_at(status, "description")
        reply = f"{code} {text}" if code[:1] in ("4", "5") and len(code) == 3 else text
        verdict = provider_verdict(kind, reply, text_at(status, "enhanced-code"))
        recipient = text_at(event, "recipient")
        return [BounceReport((recipient,), verdict, as_text(event), text_at(event, "id"))]


def _mailgun_kind(event: dict[str, Any]) -> BounceKind | None:
    match text_at(event, "event"):
        case "complained":
            return BounceKind.COMPLAINT
        case "failed" if text_at(event, "severity") != "temporary":  # then Mailgun tries again
            if (known := _MAILGUN_REASONS.get(text_at(event, "reason"))) is not None:
                return known
            return BounceKind.UNKNOWN
        case _:
            return None
