"""The webhooks of providers, with the payloads and signatures that each documents, and with
tampered ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.services.audience.bounces.providers.amazon_ses import AmazonSes
from postroom.services.audience.bounces.providers.hook_requests import (
    HookRefused,
    HookRequest,
    ProviderHook,
)
from postroom.services.audience.bounces.providers.provider_hooks import HOOKS

SECRET = "a-secret-of-the-tests"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:ses-events"
CERTIFICATE = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123.pem"


def request(body: object, headers: dict[str, str] | None = None, **query: str) -> HookRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HookRequest(headers or {}, query, content)


def kinds(hook: ProviderHook, body: object) -> list[tuple[str, str, bool]]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [
        (each.addresses[0], each.verdict.kind.value, each.verdict.by_code)
        for each in hook.reports(content)
    ]


# -- Amazon SES -----------------------------------------------------------------------------------


class Sns:
    """Signs as Amazon SNS does."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(self.key, SHA256())
        )
        self.certificate = made.public_bytes(Encoding.PEM)
        self.fetched: list[str] = []

    def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        return self.certificate

    def signed(self, version: str = "2", **fields: str) -> dict[str, str]:
        event = {
            "Type": "Notification",
            "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
            "TopicArn": TOPIC,
            "Timestamp": "2026-11-16T18:00:00.000Z",
            "SigningCertURL": CERTIFICATE,
            "SignatureVersion": version,
            **fields,
        }
        names = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token"]
        names += ["TopicArn", "Type"]
        text = "".join(f"{name}\n{event[name]}\n" for name in names if name in event)
        algorithm: HashAlgorithm = SHA256() if version == "2" else SHA1()  # noqa: S303
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), algorithm)
        return {**event, "Signature": base64.b64encode(signature).decode()}


# docs.aws.amazon.com/ses/latest/dg/notification-examples.html
SES_BOUNCE = {
    "notificationType": "Bounce",
    "bounce": {
        "bounceType": "Permanent",
        "bounceSubType": "General",
        "reportingMTA": "dns; email.example.com",
        "bouncedRecipients": [
            {
                "emailAddress": "jane@example.com",
                "status": "5.1.1",
                "action": "failed",
                "diagnosticCode": "smtp; 550 5.1.1 <jane@example.com>... User",
            }
        ],
        "timestamp": "2016-01-27T14:59:38.237Z",
        "feedbackId": "00000138111222aa-33322211-cccc-cccc-cccc-ddddaaaa068a-000000",
        "remoteMtaIp": "127.0.2.0",
    },
    "mail": {"source": "john@example.com", "destination": ["jane@example.com", "mary@example.com"]},
}
SES_COMPLAINT = {
    "eventType": "Complaint",
    "complaint": {
        "complainedRecipients": [{"emailAddress": "richard@example.com"}],
        "complaintFeedbackType": "abuse",
        "feedbackId": "000001378603177f-18c07c78-fa81-4a58-9dd1-fedc3cb8f49a-000000",
    },
    "mail": {"tags": {"postroom": ["TOKEN"]}},
}


@pytest.mark.parametrize("version", ["1", "2"])
async def test_ses_accepts_a_genuine_notification_of_a_known_topic(version: str) -> None:
    sns = Sns()
    hook = AmazonSes(sns.fetch)
    event = sns.signed(version, Message=json.dumps(SES_BOUNCE), Subject="Bounce")
    assert (await hook.verify(request(event), (TOPIC,))).keeps
    assert (await hook.verify(request(event), (TOPIC,))).keeps
    assert sns.fetched == [CERTIFICATE]
    assert kinds(hook, event) == [("jane@example.com", "gone", True)]
    complaint = sns.signed(version, Message=json.dumps(SES_COMPLAINT))
    assert kinds(hook, complaint) == [("richard@example.com", "complaint", False)]


@pytest.mark.parametrize(
    "change",
    [
        {"Message": json.dumps(SES_COMPLAINT)},
        {"TopicArn": TOPIC.replace("123456789012", "999999999999")},
        {"SigningCertURL": "https://sns.eu-west-1.amazonaws.com.evil.example/x.pem"},
        {"SigningCertURL": CERTIFICATE.replace("https", "http")},
        {"SigningCertURL": "https://sns.eu-west-1.amazonaws.com/?Action=GetTopic&x=.pem"},
        {"SigningCertURL": "https://["},
        {"Signature": "AAAA"},
        {"SignatureVersion": "1"},
        {"Timestamp": "2026-11-17T18:00:00.000Z"},
    ],
)
async def test_ses_refuses_a_tampered_notification(change: dict[str, str]) -> None:
    sns = Sns()
    event = {**sns.signed(Message=json.dumps(SES_BOUNCE)), **change}
    with pytest.raises(HookRefused) as refused:
        await AmazonSes(sns.fetch).verify(request(event), (TOPIC,))
    assert refused.value.status == 403


async def test_ses_confirms_a_subscription_only_at_amazon() -> None:
    sns = Sns()
    hook = AmazonSes(sns.fetch)
    url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336"
    for address, expected in ((url, url), ("https://evil.example/", "")):
        event = sns.signed(
            Type="SubscriptionConfirmation", Message="Hello", SubscribeURL=address, Token="2336"
        )
        answer = await hook.verify(request(event), (TOPIC,))
        assert not answer.keeps
        assert answer.visit == expected


@pytest.mark.parametrize(
    ("bounce_type", "subtype", "reply", "kind"),
    [
        ("Permanent", "NoEmail", "", "gone"),
        ("Permanent", "UnsubscribedRecipient", "", "unknown"),
        ("Transient", "MailboxFull", "", "full"),
        ("Transient", "MessageTooLarge", "", "content"),
        ("Transient", "General", "", "temporary"),
        ("Permanent", "General", "smtp; 550 5.7.1 blocked using Spamhaus", "policy"),
        ("Undetermined", "Undetermined", "", "unknown"),
    ],
)
def test_ses_bounces_have_the_right_kind(
    bounce_type: str, subtype: str, reply: str, kind: str
) -> None:
    recipient = {"emailAddress": "a@example.com", "diagnosticCode": reply}
    bounce = {
        "bounceType": bounce_type,
        "bounceSubType": subtype,
        "bouncedRecipients": [recipient],
        "feedbackId": "1",
    }
    event = {"Message": json.dumps({"notificationType": "Bounce", "bounce": bounce})}
    assert kinds(AmazonSes(), event) == [("a@example.com", kind, False)]


# -- SendGrid -------------------------------------------------------------------------------------

# twilio.com/docs/sendgrid/for-developers/tracking-events/event
SENDGRID = [
    {
        "email": "example@test.com",
        "timestamp": 1513299569,
        "smtp-id": "<14c5d75ce93.dfd.64b469@ismtpd-555>",
        "event": "bounce",
        "category": "cat facts",
        "sg_event_id": "6g4ZI7SA-xmRDv57GoPIPw==",
        "sg_message_id": "14c5d75ce93.dfd.64b469.filter0001.16648.5515E0B88.0",
        "reason": "550 5.1.1 The email account that you tried to reach does not exist",
        "status": "5.1.1",
        "type": "bounce",
    },
    {"email": "b@test.com", "event": "bounce", "type": "blocked", "sg_event_id": "2"},
    {"email": "c@test.com", "event": "spamreport", "sg_event_id": "3"},
    {"email": "d@test.com", "event": "delivered", "sg_event_id": "4"},
    {"email": "e@test.com", "event": "dropped", "reason": "Bounced Address", "sg_event_id": "5"},
    {"email": "f@test.com", "event": "dropped", "reason": "Unsubscribed Address"},
]


async def test_sendgrid_verifies_the_signature_and_reads_every_event() -> None:
    hook, key = HOOKS[BounceSource.SENDGRID], ec.generate_private_key(ec.SECP256R1())
    form = PublicFormat.SubjectPublicKeyInfo
    public = base64.b64encode(key.public_key().public_bytes(Encoding.DER, form)).decode()
    body, stamp = json.dumps(SENDGRID).encode(), str(int(time.time()))
    signature = base64.b64encode(key.sign(stamp.encode() + body, ec.ECDSA(SHA256()))).decode()
    headers = {
        "x-twilio-email-event-webhook-signature": signature,
        "x-twilio-email-event-webhook-timestamp": stamp,
    }
    assert (await hook.verify(request(body, headers), public)).keeps
    for tampered in (
        request(body.replace(b"550", b"250"), headers),
        request(body, {**headers, "x-twilio-email-event-webhook-timestamp": "1"}),
        request(body, {**headers, "x-twilio-email-event-webhook-signature": "AAAA"}),
        request(body),
    ):
        with pytest.raises(HookRefused):
            await hook.verify(tampered, public)
    assert kinds(hook, body) == [
        ("example@test.com", "gone", True),
        ("b@test.com", "policy", False),
        ("c@test.com", "complaint", False),
        ("e@test.com", "gone", False),
    ]


@pytest.mark.parametrize(
    ("classification", "kind"),
    [("Invalid Address", "gone"), ("Unclassified", "temporary"), ("Technical", "temporary")],
)
def test_a_domain_without_mail_servers_is_not_our_reputation(
    classification: str, kind: str
) -> None:
    reason = "unable to get mx info: failed to get IPs from PTR record: unrecognized address"
    event = {"event": "bounce", "type": "blocked", "email": "a@b.example", "reason": reason}
    found = kinds(HOOKS[BounceSource.SENDGRID], {**event, "bounce_classification": classification})
    assert found == [("a@b.example", kind, False)]


# -- Mailgun --------------------------------------------------------------------------------------


def mailgun(timestamp: str, **event: Any) -> dict[str, Any]:
    token = "a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0"
    signature = hmac.new(SECRET.encode(), f"{timestamp}{token}".encode(), hashlib.sha256)
    # documentation.mailgun.com: "Webhook payloads", permanent failure
    return {
        "signature": {
            "token": token,
            "timestamp": timestamp,
            "signature": signature.hexdigest(),
        },
        "event-data": {
            "id": "G9Bn5sl1TC6nu79C8C0bwg",
            "event": "failed",
            "severity": "permanent",
            "reason": "bounce",
            "recipient": "alice@example.com",
            "delivery-status": {
                "code": 605,
                "message": "",
                "description": "Not delivering to previously bounced address",
                "attempt-no": 1,
            },
            "message": {"headers": {"message-id": "20130503192659.13651.20287@mg.example.com"}},
            **event,
        },
    }


async def test_mailgun_verifies_the_signature_and_accepts_a_token_once() -> None:
    hook, now = HOOKS[BounceSource.MAILGUN], str(int(time.time()))
    event = mailgun(now)
    answer = await hook.verify(request(event), SECRET)
    assert answer.once == event["signature"]["token"]
    other = {**event, "signature": {**event["signature"], "timestamp": str(int(now) + 1)}}
    for tampered in (other, {"event-data": event["event-data"]}, mailgun("1529006854")):
        with pytest.raises(HookRefused):
            await hook.verify(request(tampered), SECRET)
    with pytest.raises(HookRefused):
        await hook.verify(request(event), "another secret")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"reason": "suppress-bounce"}, "gone"),
        ({"event": "complained"}, "complaint"),
        ({"delivery-status": {"code": 552, "message": "5.2.2"}}, "full"),
        ({"delivery-status": {"code": 550, "message": "5.1.1 No such user"}}, "gone"),
        ({"reason": "espblock", "delivery-status": {"code": 550, "message": ""}}, "policy"),
    ],
)
def test_mailgun_events_have_the_right_kind(event: dict[str, Any], kind: str) -> None:
    [found] = kinds(HOOKS[BounceSource.MAILGUN], mailgun("1", **event))
    assert found[:2] == ("alice@example.com", kind)


def test_a_delay_is_not_a_bounce() -> None:
    status = {"code": 452, "message": "4.2.2 Mailbox full"}
    delayed = mailgun("1", severity="temporary", **{"delivery-status": status})
    assert kinds(HOOKS[BounceSource.MAILGUN], delayed) == []
    assert kinds(HOOKS[BounceSource.POSTMARK], {**POSTMARK, "Type": "Transient"}) == []


# -- Postmark, Brevo, SparkPost, Azure ------------------------------------------------------------

# postmarkapp.com/developer/webhooks/bounce-webhook
POSTMARK = {
    "RecordType": "Bounce",
    "ID": 4323372036854775807,
    "Type": "HardBounce",
    "TypeCode": 1,
    "Description": "The server was unable to deliver your message (ex: unknown user, mailbox not"
    " found).",
    "Details": "smtp;550 5.1.1 The email account that you tried to reach does not exist.",
    "Email": "john@example.com",
    "From": "sender@example.com",
    "Metadata": {"postroom": "TOKEN"},
}
# developers.brevo.com/docs/transactional-webhooks
BREVO = {
    "event": "hard_bounce",
    "email": "example@domain.com",
    "id": 1,
    "date": "2020-10-09 00:00:00",
    "ts_epoch": 1604933653,
    "message-id": "<201798300811.5787683@relay.domain.com>",
    "reason": "server is down",
    "X-Mailin-custom": "TOKEN",
}
# developers.sparkpost.com/api/webhooks: sample events
SPARKPOST = [
    {
        "msys": {
            "message_event": {
                "type": "bounce",
                "bounce_class": "10",
                "error_code": "550",
                "event_id": "92356927693813856",
                "raw_reason": "550 5.1.1 <recipient@example.com>: user unknown",
                "rcpt_to": "recipient@example.com",
                "rcpt_meta": {"postroom": "TOKEN"},
            }
        }
    },
    {"msys": {}},
]
# learn.microsoft.com/azure/event-grid/communication-services-email-events
AZURE: list[dict[str, Any]] = [
    {
        "id": "00000000-0000-0000-0000-000000000000",
        "subject": "sender/senderid@azure.com/message/00000000-0000-0000-0000-000000000000",
        "data": {
            "sender": "senderid@azure.com",
            "recipient": "receiver@azure.com",
            "messageId": "00000000-0000-0000-0000-000000000000",
            "status": "Bounced",
            "deliveryStatusDetails": {"statusMessage": "550 5.1.10 RecipientNotFound"},
            "deliveryAttemptTimeStamp": "2020-09-18T00:22:20.2855749+00:00",
        },
        "eventType": "Microsoft.Communication.EmailDeliveryReportReceived",
        "dataVersion": "1.0",
        "eventTime": "2020-09-18T00:22:20Z",
    }
]
# The same in the schema of CloudEvents, one event per request
AZURE_CLOUD_EVENT = {
    "id": "00000000-0000-0000-0000-000000000000",
    "source": "/subscriptions/00000000-0000-0000-0000-000000000000",
    "type": "Microsoft.Communication.EmailDeliveryReportReceived",
    "time": "2020-09-18T00:22:20Z",
    "specversion": "1.0",
    "data": {
        **AZURE[0]["data"],
        "status": "FilteredSpam",
        "deliveryStatusDetails": {"statusMessage": ""},
        "deliveryAttemptTimestamp": "2020-09-18T00:22:20.2855749+00:00",
    },
}
SHARED = [
    (BounceSource.POSTMARK, POSTMARK, ("john@example.com", "gone", True)),
    (BounceSource.BREVO, BREVO, ("example@domain.com", "temporary", False)),
    (BounceSource.SPARKPOST, SPARKPOST, ("recipient@example.com", "gone", True)),
    (BounceSource.AZURE, AZURE, ("receiver@azure.com", "gone", True)),
    (BounceSource.AZURE, AZURE_CLOUD_EVENT, ("receiver@azure.com", "content", False)),
]


@pytest.mark.parametrize(("source", "body", "expected"), SHARED)
async def test_providers_without_signatures_need_the_secret(
    source: BounceSource, body: object, expected: tuple[str, str, bool]
) -> None:
    hook = HOOKS[source]
    basic = base64.b64encode(f"postroom:{SECRET}".encode()).decode()
    for genuine in (
        request(body, secret=SECRET),
        request(body, {"authorization": f"Basic {basic}"}),
    ):
        assert (await hook.verify(genuine, SECRET)).keeps
    for refused in (
        request(body),
        request(body, secret=SECRET[:-1]),
        request(body, {"authorization": f"Basic {basic[:-4]}"}),
        request(body, {"authorization": f"Bearer {SECRET}"}),
    ):
        with pytest.raises(HookRefused):
            await hook.verify(refused, SECRET)
    assert kinds(hook, body) == [expected]


def test_postmark_calls_blocked_what_is_about_us() -> None:
    hook = HOOKS[BounceSource.POSTMARK]
    for given, kind in (
        ("Blocked", "policy"),
        ("SpamComplaint", "complaint"),
        ("AutoResponder", "auto_reply"),
        ("ChallengeVerification", "challenge"),
    ):
        event = {**POSTMARK, "Type": given, "Details": "", "Description": ""}
        assert kinds(hook, event)[0][1] == kind


async def test_azure_repeats_the_code_of_a_new_subscription() -> None:
    event = {
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "data": {"validationCode": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"},
    }
    answer = await HOOKS[BounceSource.AZURE].verify(request([event], secret=SECRET), SECRET)
    assert not answer.keeps
    assert answer.body == {"validationResponse": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}


@pytest.mark.parametrize("hook", HOOKS.values(), ids=[str(each) for each in HOOKS])
@pytest.mark.parametrize("body", [b"[]", b"{}", b"[1]", b'{"msys":1,"data":2}', b'"x"', b"null"])
def test_strange_events_say_nothing(hook: ProviderHook, body: bytes) -> None:
    assert hook.reports(body) == []
