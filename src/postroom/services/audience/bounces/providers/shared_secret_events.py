"""Providers that sign nothing: Postmark, Brevo, SparkPost and Azure Communication Services. A
secret, in the URL or as the password of basic authentication, proves that a request comes from
them."""

from __future__ import annotations

from typing import Any, Final

from postroom.domain.messages.delivery.bounces import BounceKind, BounceSource
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

_GONE, _FULL, _TEMPORARY = BounceKind.GONE, BounceKind.FULL, BounceKind.TEMPORARY
_POLICY, _CONTENT, _UNKNOWN = BounceKind.POLICY, BounceKind.CONTENT, BounceKind.UNKNOWN
_COMPLAINT, _AUTO_REPLY = BounceKind.COMPLAINT, BounceKind.AUTO_REPLY
_CHALLENGE = BounceKind.CHALLENGE

# postmarkapp.com/developer/api/bounce-api: "Bounce types". `Blocked` is about us, not about them;
# `Transient` is only a delay.
_POSTMARK: Final = {
    "HardBounce": _GONE,
    "BadEmailAddress": _GONE,
    "SoftBounce": _TEMPORARY,
    "DnsError": _TEMPORARY,
    "Blocked": _POLICY,
    "DMARCPolicy": _POLICY,
    "ManuallyDeactivated": _POLICY,
    "SpamNotification": _CONTENT,
    "VirusNotification": _CONTENT,
    "SpamComplaint": _COMPLAINT,
    "AutoResponder": _AUTO_REPLY,
    "AddressChange": _AUTO_REPLY,
    "ChallengeVerification": _CHALLENGE,
    "Unknown": _UNKNOWN,
}

# developers.brevo.com: "Transactional webhooks"
_BREVO: Final = {
    "hard_bounce": _GONE,
    "hardBounce": _GONE,
    "invalid_email": _GONE,
    "soft_bounce": _TEMPORARY,
    "softBounce": _TEMPORARY,
    "blocked": _POLICY,
    "spam": _COMPLAINT,
    "complaint": _COMPLAINT,
}

# support.sparkpost.com: "Bounce Classification Codes"
_SPARKPOST: Final = {
    "10": _GONE,
    "22": _FULL,
    "30": _GONE,
    "23": _CONTENT,
    "52": _CONTENT,
    "53": _CONTENT,
    "25": _POLICY,
    "50": _POLICY,
    "51": _POLICY,
    "54": _POLICY,
    "20": _TEMPORARY,
    "21": _TEMPORARY,
    "24": _TEMPORARY,
    "40": _TEMPORARY,
    "70": _TEMPORARY,
    "60": _AUTO_REPLY,
    "100": _CHALLENGE,
}
_AZURE_VALIDATION: Final = "Microsoft.EventGrid.SubscriptionValidationEvent"
_AZURE_REPORT: Final = "Microsoft.Communication.EmailDeliveryReportReceived"
_AZURE: Final = {
    "bounced": BounceKind.GONE,
    "suppressed": BounceKind.GONE,
    "failed": BounceKind.UNKNOWN,
    # A filter's work: nobody has complained.
    "filteredspam": BounceKind.CONTENT,
    "quarantined": BounceKind.CONTENT,
}


class _SharedSecret(ProviderHook):
    async def verify(self, request: HookRequest, secret: Any) -> HookDecision:
        check_shared_secret(request, secret)
        parse_json(request.body)
        return HookDecision()


class PostmarkEvents(_SharedSecret):
    source = BounceSource.POSTMARK
    setting = "postmark_webhook_secret"
    headers = {"X-PM-Metadata-postroom": "TOKEN"}  # noqa: RUF012

    def reports(self, content: bytes) -> list[BounceReport]:
        found = []
        for event in objects(parse_json(content)):
            if text_at(event, "RecordType") not in ("Bounce", "SpamComplaint"):
                continue
            kind = _POSTMARK.get(text_at(event, "Type"))
            if kind is None:
                continue
            text = text_at(event, "Details") or text_at(event, "Description")
            address, key = text_at(event, "Email"), text_at(event, "ID")
            verdict = provider_verdict(kind, text)
            found.append(BounceReport((address,), verdict, as_text(event), key))
        return found


class BrevoEvents(_SharedSecret):
    source = BounceSource.BREVO
    setting = "brevo_webhook_secret"
    headers = {"X-Mailin-custom": "TOKEN"}  # noqa: RUF012

    def reports(self, content: bytes) -> list[BounceReport]:
        found = []
        for event in objects(parse_json(content)):
            kind = _BREVO.get(text_at(event, "event"))
            if kind is None:
                continue
            address = text_at(event, "email")
            # The event has no ID; only `ts_epoch` is certain to be the same when it is repeated.
            names = ("message-id", "event", "ts_epoch", "email")
            key = ",".join(text_at(event, name) for name in names)
            verdict = provider_verdict(kind, text_at(event, "reason"))
            found.append(BounceReport((address,), verdict, as_text(event), key))
        return found


class SparkpostEvents(_SharedSecret):
    source = BounceSource.SPARKPOST
    setting = "sparkpost_webhook_secret"
    headers = {"X-MSYS-API": '{"metadata":{"postroom":"TOKEN"}}'}  # noqa: RUF012

    def reports(self, content: bytes) -> list[BounceReport]:
        found = []
        for each in objects(parse_json(content)):
            wrapped = each.get("msys")
            event = wrapped.get("message_event") if isinstance(wrapped, dict) else None
            if not isinstance(event, dict) or (kind := _sparkpost_kind(event)) is None:
                continue
            text = text_at(event, "raw_reason") or text_at(event, "reason")
            address, key = text_at(event, "rcpt_to"), text_at(event, "event_id")
            verdict = provider_verdict(kind, text)
            found.append(BounceReport((address,), verdict, as_text(event), key))
        return found


def _sparkpost_kind(event: dict[str, Any]) -> BounceKind | None:
    match text_at(event, "type"):
        case "spam_complaint":
            return _COMPLAINT
        case "bounce" | "out_of_band":
            return _SPARKPOST.get(text_at(event, "bounce_class"), _UNKNOWN)
        case "policy_rejection":
            return _POLICY
        case _:
            return None


class AzureEvents(ProviderHook):
    """Delivery reports that come through Event Grid (see "Azure Communication Services - Email
    events" at learn.microsoft.com). A new subscription is confirmed by repeating its code."""

    source = BounceSource.AZURE
    setting = "azure_webhook_secret"

    async def verify(self, request: HookRequest, secret: Any) -> HookDecision:
        check_shared_secret(request, secret)
        for event in objects(parse_json(request.body)):
            if _azure_type(event) == _AZURE_VALIDATION:
                code = text_at(event, "data", "validationCode")
                return HookDecision(keeps=False, body={"validationResponse": code})
        return HookDecision()

    def reports(self, content: bytes) -> list[BounceReport]:
        found = []
        for event in objects(parse_json(content)):
            data = event.get("data")
            kind = _AZURE.get(text_at(data, "status").lower())
            if _azure_type(event) != _AZURE_REPORT or kind is None:
                continue
            details = data.get("deliveryStatusDetails") if isinstance(data, dict) else None
            text = text_at(details, "statusMessage")
            verdict = provider_verdict(kind, text)
            address = text_at(data, "recipient")
            found.append(BounceReport((address,), verdict, as_text(event), text_at(event, "id")))
        return found


def _azure_type(event: dict[str, Any]) -> str:
    """Return the type in either schema: Event Grid's own, or that of CloudEvents."""
    return text_at(event, "eventType") or text_at(event, "type")
