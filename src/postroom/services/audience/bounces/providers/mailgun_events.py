"""Mailgun's webhooks (documentation.mailgun.com, "Securing Webhooks"): an HMAC over timestamp and
token. The body is not signed, so each token is accepted only once."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from typing import Any, Final

from postroom import clock
from postroom.domain.messages.bounces import BounceKind, BounceSource
from postroom.services.audience.bounces.providers.hook_requests import (
    HookDecision,
    HookRefused,
    HookRequest,
    ProviderHook,
    as_text,
    parse_json,
    text_at,
)
from postroom.services.audience.bounces.reports import BounceReport, provider_verdict

OLDEST: Final = timedelta(days=2)
"""Mailgun tries for eight hours; a token may be forgotten once it is too old to be accepted."""

_REASONS = {
    "suppress-bounce": BounceKind.GONE,
    "suppress-complaint": BounceKind.COMPLAINT,
    "espblock": BounceKind.POLICY,
    "old": BounceKind.TEMPORARY,
}


class MailgunEvents(ProviderHook):
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
        if not isinstance(event, dict) or (kind := _kind(event)) is None:
            return []
        status = event.get("delivery-status")
        code, text = text_at(status, "code"), text_at(status, "message")
        text = text or text_at(status, "description")
        reply = f"{code} {text}" if code[:1] in ("4", "5") and len(code) == 3 else text
        verdict = provider_verdict(kind, reply, text_at(status, "enhanced-code"))
        recipient = text_at(event, "recipient")
        return [BounceReport((recipient,), verdict, as_text(event), text_at(event, "id"))]


def _kind(event: dict[str, Any]) -> BounceKind | None:
    match text_at(event, "event"):
        case "complained":
            return BounceKind.COMPLAINT
        case "failed" if text_at(event, "severity") != "temporary":  # then Mailgun tries again
            if (known := _REASONS.get(text_at(event, "reason"))) is not None:
                return known
            return BounceKind.UNKNOWN
        case _:
            return None
