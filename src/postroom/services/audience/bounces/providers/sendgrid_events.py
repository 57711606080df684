"""SendGrid's event webhook (twilio.com/docs/sendgrid, "Getting Started with the Event Webhook
Security Features"): an ECDSA signature over timestamp and body."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from postroom.domain.messages.bounces import BounceKind, BounceSource
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


class SendgridEvents(ProviderHook):
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
            kind = _kind(event)
            if kind is None:
                continue
            reason, status = text_at(event, "reason"), text_at(event, "status")
            key = text_at(event, "sg_event_id")
            verdict = provider_verdict(kind, reason, status)
            found.append(BounceReport((text_at(event, "email"),), verdict, as_text(event), key))
        return found


def _kind(event: dict[str, Any]) -> BounceKind | None:
    match text_at(event, "event"):
        case "spamreport":
            return BounceKind.COMPLAINT
        case "bounce":
            known = _CLASSES.get(text_at(event, "bounce_classification").lower())
            is_blocked = text_at(event, "type") == "blocked"
            return known or (BounceKind.POLICY if is_blocked else BounceKind.UNKNOWN)
        case "dropped":
            is_invalid = text_at(event, "reason").lower() in ("bounced address", "invalid")
            return BounceKind.GONE if is_invalid else None
        case _:
            return None
