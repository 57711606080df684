"""Providers: how fast each of them gets our emails, and how it replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.providers import (
    InitialLimits,
    Provider,
    initial_limits,
    parse_provider,
)
from postroom.services.accounts.users import Role
from postroom.services.audience.suppression.delivery_limits import GMAIL_COMPLAINTS, percent
from postroom.services.messages.sending.provider_rates import ProviderLimit
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_PATH: Final = "/providers"
_LONGEST_NUMBER: Final = 20
_WHOLE_NUMBERS: Final = ("connections", "emails_per_connection", "rest_minutes")


async def index(visit: Visit) -> Response:
    return visit.render(
        "admin/operations/providers.html",
        providers=await visit.services.provider_overview.all(),
        warm_ups=await visit.services.warm_ups.statuses(),
        is_adaptive=visit.context.settings.sender.adaptive_rates == "yes",
        percent=percent,
        most_complaints=GMAIL_COMPLAINTS,
    )


async def limit(visit: Visit) -> Response:
    """Show and change the limits of a provider; without one, ask which."""
    if visit.request.method == "GET":
        name = visit.parameter("provider").strip()
        provider = _known(name)
        values = {"provider": name}
        if provider is not None:
            found = (await visit.services.provider_rates.get(provider)).limit
            values |= {
                "provider": provider,
                "per_second": "" if found.per_second is None else f"{found.per_second:g}",
                **{name: _shown(getattr(found, name)) for name in _WHOLE_NUMBERS},
            }
        return await _show_form(visit, values)
    names = ("provider", "per_second", *_WHOLE_NUMBERS)
    given = {name: (await visit.text(name)).strip() for name in names}
    try:
        provider = parse_provider(given["provider"])
        chosen = ProviderLimit(
            _number("per_second", given["per_second"]),
            *(_whole_number(name, given[name]) for name in _WHOLE_NUMBERS),
        )
        await visit.services.provider_rates.set_limit(provider, chosen)
    except Invalid as exc:
        return await _show_form(visit, given, {exc.field: exc.problem}, status=422)
    await visit.audit("limited provider", provider)
    return visit.redirect(_PATH, f"Limits of {provider} saved.")


async def reset(visit: Visit) -> Response:
    provider = parse_provider(await visit.text("provider"))
    await visit.services.provider_rates.forget(provider)
    await visit.audit("reset rate of provider", provider)
    return visit.redirect(_PATH, f"The learned rate of {provider} was reset.")


async def _show_form(
    visit: Visit,
    values: Mapping[str, str],
    problems: Mapping[str, str] | None = None,
    *,
    status: int = 200,
) -> Response:
    provider = _known(values.get("provider", ""))
    overview = visit.services.provider_overview
    return visit.render(
        "admin/operations/provider_limit.html",
        status=status,
        values=values,
        problems=problems or {},
        provider=None if provider is None else await overview.get(provider),
        initial=InitialLimits() if provider is None else initial_limits(provider),
    )


def _known(name: str) -> Provider | None:
    try:
        return parse_provider(name)
    except Invalid:
        return None


def _shown(number: int | None) -> str:
    return "" if number is None else str(number)


def _number(field: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError as exc:
        problem = f"must be a number, not {text[:_LONGEST_NUMBER]!r}"
        raise Invalid(field, problem) from exc


def _whole_number(field: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise Invalid(field, f"must be a whole number, not {text[:_LONGEST_NUMBER]!r}")
    return int(text)


VIEWS = (
    View(_PATH, index, role=Role.VIEWER),
    View(f"{_PATH}/limit", limit, role=Role.ADMINISTRATOR, methods=("GET", "POST")),
    View(f"{_PATH}/reset", reset, role=Role.ADMINISTRATOR, methods=("POST",)),
)
