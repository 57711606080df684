"""Settings → Alerts: who is notified of problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from postroom.services.accounts.users import Role
from postroom.web.admin.configuration.setting_fields import (
    SettingField,
    save_fields,
    show_fields,
)
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from postroom.wiring import SetupTrial, try_alerts

HERE = "/settings/alerts"
_FIELDS: Final = (
    SettingField(
        "alert_email",
        "Email address",
        "Gets an email for every warning and error.",
        type="email",
        placeholder="you@example.com",
    ),
    SettingField(
        "alert_from",
        "From address",
        "Alerts come from this address, which your mail server must allow. Leave empty to use the"
        " From address of the first list.",
        type="email",
    ),
    SettingField(
        "alert_webhook",
        "Webhook URL",
        "Alerts are POSTed to this URL as JSON, for example to a chat.",
    ),
    SettingField(
        "digest_email",
        "Weekly digest",
        "Gets an email each Monday morning (7:00 UTC) with the results of the past week on all"
        " lists.",
        type="email",
        placeholder="you@example.com",
    ),
)
SETTINGS: Final = tuple(each.name for each in _FIELDS)


async def alerts(visit: Visit) -> Response:
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
    trials = await try_alerts(visit.services, visit.context.settings)
    if not trials:
        return visit.redirect(HERE, "Nothing to test yet: set an address or a webhook first.")
    return _show(visit, trials=trials)


def _show(
    visit: Visit,
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
    trials: Sequence[SetupTrial] = (),
) -> Response:
    settings = visit.context.settings
    return visit.render(
        "admin/configuration/alerts.html",
        status=422 if problems else 200,
        here=HERE,
        trials=trials,
        fields=show_fields(settings, _FIELDS, typed, problems).values(),
        is_off=not settings.alerts.email and not settings.alerts.webhook,
        stored=visit.context.live.stored,
        problem=(problems or {}).get("", ""),
    )


VIEWS = (
    View(HERE, alerts, role=Role.ADMINISTRATOR),
    View(HERE, save, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View(f"{HERE}/test", test, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
)
