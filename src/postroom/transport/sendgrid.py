"""`sendgrid://`: SendGrid's HTTP API v3, up to 1,000 recipients per call.

A call carries the message once, with placeholders, and each recipient's values. It is accepted as a
whole (202) or not at all. Addresses that SendGrid does not accept (400 names their positions) are
refused, and the others are sent again.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence

import msgspec

from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.mailing import Recipient
from postroom.mail.wire_addresses import envelope_address
from postroom.transport.contract import FaultScope, Result, ResultKind, TransportError
from postroom.transport.http.provider import (
    HttpProvider,
    HttpResponse,
    TemplatedMailing,
    one_line,
)

_RECIPIENT = re.compile(r"personalizations\.(\d+)\.to(\.|$)")
"""Only `to` comes from the recipient: other errors in a personalization are our own mistakes."""


class _Error(msgspec.Struct):
    message: str | None = None
    field: str | None = None


class _Errors(msgspec.Struct):
    errors: list[_Error] = []


class _Scopes(msgspec.Struct):
    scopes: list[str] = []


def _attached(files: Sequence[AttachedFile]) -> list[dict[str, str]]:
    return [
        {
            "filename": each.name,
            "type": each.type,
            "content": base64.b64encode(each.content).decode("ascii"),
            "disposition": "attachment",
        }
        for each in files
    ]


class SendgridProvider(HttpProvider):
    name = "SendGrid"
    scheme = "sendgrid"
    api_url = "https://api.sendgrid.com"
    send_path = "/v3/mail/send"
    check_path = "/v3/scopes"
    most_recipients = 1000  # personalizations of one call

    def common(self, mailing: TemplatedMailing) -> Mapping[str, object]:
        parts = mailing.parts()
        author = {"email": envelope_address(mailing.from_address)}
        if parts.from_name:
            author["name"] = parts.from_name
        # Text before HTML: SendGrid insists on this order.
        contents = (("text/plain", parts.text), ("text/html", parts.html))
        return {
            "from": author,
            **({"reply_to": {"email": parts.reply_to}} if parts.reply_to else {}),
            "subject": parts.subject,
            "content": [{"type": kind, "value": value} for kind, value in contents if value],
            **({"attachments": _attached(parts.attachments)} if parts.attachments else {}),
            "headers": dict(parts.headers),
            # Rewritten links and tracking pixels are our users' decision, not the relay's.
            "tracking_settings": {
                "click_tracking": {"enable": False, "enable_text": False},
                "open_tracking": {"enable": False},
            },
        }

    def personal(self, mailing: TemplatedMailing, recipient: Recipient) -> Mapping[str, object]:
        message_id = mailing.message_id(recipient)
        return {
            "to": [{"email": envelope_address(recipient.address)}],
            "substitutions": dict(mailing.values(recipient)),
            "headers": {**mailing.headers(recipient), "Message-ID": message_id},
            # Returned with every event, to find the email of a bounce.
            "custom_args": {"postroom_message_id": message_id},
        }

    def body(
        self, common: Mapping[str, object], personal: Sequence[Mapping[str, object]]
    ) -> object:
        return {**common, "personalizations": personal}

    def errors(self, body: bytes) -> list[tuple[str, str]]:
        try:
            found = msgspec.json.decode(body, type=_Errors).errors
        except msgspec.DecodeError:
            return []
        return [(each.field or "", each.message or "") for each in found]

    def results(self, response: HttpResponse, count: int) -> dict[int, Result]:
        refused: dict[int, Result] = {}
        if response.status == 400:
            for field, message in response.errors:
                named = _RECIPIENT.match(field)
                if named and int(named[1]) < count:
                    reply = one_line(f"400 {message} ({field})")
                    reason = "SendGrid does not accept this address"
                    result = Result(ResultKind.REFUSED, reply, reason=reason)
                    refused.setdefault(int(named[1]), result)
        return refused

    def fault(self, response: HttpResponse) -> tuple[FaultScope, str] | None:
        # twilio.com/docs/sendgrid: 401 and 403 "Maximum credits exceeded", 403 for the sender.
        if response.status in (401, 403) and "credits exceeded" in response.text.lower():
            return FaultScope.ACCOUNT, "This account has reached SendGrid's sending limit"
        if any(field == "from" or field.startswith("from.") for field, _ in response.errors):
            return FaultScope.ACCOUNT, "SendGrid does not allow this From address"
        return None

    def check(self, response: HttpResponse, body: bytes) -> str:
        """Check in the scopes of the key whether it may send."""
        try:
            scopes = msgspec.json.decode(body, type=_Scopes).scopes
        except msgspec.DecodeError as exc:
            raise TransportError(f"SendGrid sent an unexpected response: {response.text}") from exc
        if "mail.send" not in scopes:
            raise TransportError("the API key of SendGrid may not send: give it 'Mail Send'")
        return "the API key may send"
