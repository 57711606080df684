"""Azure Communication Services, whose delivery reports come through Event Grid (see "Azure
Communication Services - Email events" at learn.microsoft.com). A secret in the URL says that they
are genuine; a new subscription is confirmed by repeating its code."""

from __future__ import annotations

from typing import Any, Final

from postroom.domain.messages.bounces import BounceKind, BounceSource
from postroom.services.audience.bounces.providers.hook_requests import (
    HookDecision,
    HookRequest,
    ProviderHook,
    as_text,
    check_shared_secret,
    objects,
    parse_json,
    text_at,
)
from postroom.services.audience.bounces.reports import BounceReport, provider_verdict

_VALIDATION: Final = "Microsoft.EventGrid.SubscriptionValidationEvent"
_REPORT: Final = "Microsoft.Communication.EmailDeliveryReportReceived"
_KINDS: Final = {
    "bounced": BounceKind.GONE,
    "suppressed": BounceKind.GONE,
    "failed": BounceKind.UNKNOWN,
    # A filter's work: nobody has complained.
    "filteredspam": BounceKind.CONTENT,
    "quarantined": BounceKind.CONTENT,
}


class AzureEvents(ProviderHook):
    source = BounceSource.AZURE
    setting = "azure_webhook_secret"

    async def verify(self, request: HookRequest, secret: Any) -> HookDecision:
        check_shared_secret(request, secret)
        for event in objects(parse_json(request.body)):
            if _type(event) == _VALIDATION:
                code = text_at(event, "data", "validationCode")
                return HookDecision(keeps=False, body={"validationResponse": code})
        return HookDecision()

    def reports(self, content: bytes) -> list[BounceReport]:
        found = []
        for event in objects(parse_json(content)):
            data = event.get("data")
            kind = _KINDS.get(text_at(data, "status").lower())
            if _type(event) != _REPORT or kind is None:
                continue
            details = data.get("deliveryStatusDetails") if isinstance(data, dict) else None
            text = text_at(details, "statusMessage")
            verdict = provider_verdict(kind, text)
            address = text_at(data, "recipient")
            found.append(BounceReport((address,), verdict, as_text(event), text_at(event, "id")))
        return found


def _type(event: dict[str, Any]) -> str:
    """Return the type in either schema: Event Grid's own, or that of CloudEvents."""
    return text_at(event, "eventType") or text_at(event, "type")
