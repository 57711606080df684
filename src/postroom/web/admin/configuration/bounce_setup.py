"""Settings → Bounces: where bounces go, and how Postroom learns of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.services.accounts.users import Role
from postroom.services.audience.bounces.providers.provider_hooks import HOOKS
from postroom.web.admin.configuration.setting_fields import (
    SettingField,
    ShownField,
    save_fields,
    show_fields,
)
from postroom.web.rendering.templating import SOURCE_LABELS
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from postroom.wiring import SetupTrial, try_bounce_inputs

HERE = "/settings/bounces"

_RETURN: Final = (
    SettingField(
        "bounce_domain",
        "Bounce domain",
        "A separate domain for bounces. Each email gets a signed return address there, so every"
        " bounce is recognised. Its MX must lead to the mail listener below.",
        placeholder="bounce.example.com",
    ),
    SettingField(
        "bounce_address",
        "Bounce address",
        "Instead of a bounce domain: one of your mailboxes, which receives all bounces. If neither"
        " is set, they go to the list’s From address.",
        type="email",
        placeholder="bounces@example.com",
    ),
)
_MAILBOX: Final = (
    SettingField(
        "bounce_mailbox",
        "Mailbox to fetch from",
        "Such as imaps://user:password@mail.example.com/INBOX; also imap://, pop3s:// and pop3://."
        " Fetched emails are moved to the folder Postroom; POP3 deletes them.",
    ),
)
_LISTENER: Final = (
    SettingField(
        "inbound_port",
        "Port",
        "Your mail server delivers bounces to this port. Leave empty for none.",
        placeholder="8424",
    ),
    SettingField(
        "inbound_protocol",
        "Protocol",
        choices={"lmtp": "LMTP, from your own Postfix", "smtp": "SMTP, as an MX"},
    ),
    SettingField("inbound_bind", "Address to listen on", "0.0.0.0 for all addresses."),
)
_HOOK_FIELDS: Final = {
    BounceSource.SES: SettingField(
        "ses_topics",
        "SNS topics",
        "The ARN of the topic that SES publishes to. Save it, and then subscribe this URL to the"
        " topic, by HTTPS. In SES, turn on “Include original headers”, or publish the events of a"
        " configuration set.",
        placeholder="arn:aws:sns:eu-west-1:123456789012:bounces",
    ),
    BounceSource.SENDGRID: SettingField(
        "sendgrid_webhook_key",
        "Verification key",
        "Mail Settings → Event Webhook: turn on the signed webhook and copy its verification key.",
    ),
    BounceSource.MAILGUN: SettingField(
        "mailgun_webhook_key",
        "Signing key",
        "Sending → Webhooks shows the HTTP webhook signing key. Add the URL for permanent failures"
        " and spam complaints.",
    ),
    BounceSource.POSTMARK: SettingField(
        "postmark_webhook_secret",
        "Secret",
        "Choose a secret of at least 16 characters, and put it into the URL.",
    ),
    BounceSource.BREVO: SettingField(
        "brevo_webhook_secret",
        "Secret",
        "Choose a secret of at least 16 characters, and put it into the URL.",
    ),
    BounceSource.SPARKPOST: SettingField(
        "sparkpost_webhook_secret",
        "Secret",
        "Choose a secret of at least 16 characters, and put it into the URL.",
    ),
    BounceSource.AZURE: SettingField(
        "azure_webhook_secret",
        "Secret",
        "Choose a secret of at least 16 characters, and save it. Then create an Event Grid"
        " subscription for “Email Delivery Report Received”, with the secret in the URL.",
    ),
}
_FIELDS: Final = (*_RETURN, *_MAILBOX, *_LISTENER, *_HOOK_FIELDS.values())
SETTINGS: Final = tuple(each.name for each in _FIELDS)


class ShownHook(msgspec.Struct, frozen=True):
    """The webhook of a provider: the URL to copy, and the field for what proves its requests."""

    name: str
    id: str
    url: str
    shown: ShownField


async def bounces(visit: Visit) -> Response:
    await visit.context.live.refresh()
    return _show(visit)


async def save(visit: Visit) -> Response:
    typed, problems = await save_fields(visit, _FIELDS)
    if problems:
        return _show(visit, typed, problems)
    return visit.redirect(HERE, "Saved. All processes use it within a few seconds.")


async def test(visit: Visit) -> Response:
    """Test the saved settings, and show the results."""
    await visit.context.live.refresh()
    trials = await try_bounce_inputs(visit.context.settings)
    if not trials:
        return visit.redirect(HERE, "Nothing to test yet: set a mailbox or a port first.")
    return _show(visit, trials=trials)


def _show(
    visit: Visit,
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
    trials: Sequence[SetupTrial] = (),
) -> Response:
    fields = show_fields(visit.context.settings, _FIELDS, typed, problems)
    return visit.render(
        "admin/configuration/bounces.html",
        status=422 if problems else 200,
        here=HERE,
        trials=trials,
        return_fields=[fields[each.name] for each in _RETURN],
        mailbox_fields=[fields[each.name] for each in _MAILBOX],
        listener_fields=[fields[each.name] for each in _LISTENER],
        hooks=[
            ShownHook(
                SOURCE_LABELS[source], source.value, _hook_url(visit, source), fields[field.name]
            )
            for source, field in _HOOK_FIELDS.items()
        ],
        has_https=visit.context.is_behind_tls,
        stored=visit.context.live.stored,
        problem=(problems or {}).get("", ""),
    )


def _hook_url(visit: Visit, source: BounceSource) -> str:
    url = f"{visit.context.base_url}/hooks/{source.value}"
    return f"{url}?secret=YOUR-SECRET" if HOOKS[source].setting.endswith("_secret") else url


VIEWS = (
    View(HERE, bounces, role=Role.ADMINISTRATOR),
    View(HERE, save, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View(f"{HERE}/test", test, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
)
