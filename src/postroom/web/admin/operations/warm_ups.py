"""Warm-up plans: how many emails per day a new domain or IP address sends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Final

from starlette.responses import Response

from postroom import clock
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.messages.delivery.warm_up import (
    ALL,
    VOLUMES,
    WarmUpPlan,
    parse_volumes,
    parse_warm_up_domain,
)
from postroom.services.accounts.users import Role
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_PATH: Final = "/providers/warm-up"
_INDEX: Final = "/providers"


async def plan(visit: Visit) -> Response:
    if visit.request.method == "GET":
        return _show_form(visit, await _values(visit))
    names = ("domain", "starts", "volumes")
    given = {name: (await visit.text(name)).strip() for name in names}
    try:
        domain = parse_warm_up_domain(given["domain"] or ALL)
        made = WarmUpPlan(domain, _day(given["starts"]), parse_volumes(given["volumes"]))
        await visit.services.warm_ups.save(made)
    except Invalid as exc:
        return _show_form(visit, given, {exc.field: exc.problem}, status=422)
    await visit.audit("saved warm-up plan", domain)
    return visit.redirect(_INDEX, f"Warm-up of {_shown(domain)} saved.")


async def remove(visit: Visit) -> Response:
    domain = await visit.text("domain")
    await visit.services.warm_ups.remove(domain)
    await visit.audit("ended warm-up plan", domain)
    return visit.redirect(_INDEX, f"Warm-up of {_shown(domain)} ended.")


async def _values(visit: Visit) -> dict[str, str]:
    """Return the fields of an existing plan, or of a new one."""
    domain = visit.parameter("domain").strip()
    new = {"domain": domain, "starts": clock.now().date().isoformat()}
    volumes = ", ".join(map(str, VOLUMES))
    if domain:
        try:
            found = (await visit.services.warm_ups.get(parse_warm_up_domain(domain))).plan
        except (Invalid, NoSuch):
            return {**new, "volumes": volumes}
        volumes = ", ".join(map(str, found.volumes))
        shown = "" if found.domain == ALL else found.domain
        return {"domain": shown, "starts": found.starts.isoformat(), "volumes": volumes}
    return {**new, "volumes": volumes}


def _show_form(
    visit: Visit,
    values: Mapping[str, str],
    problems: Mapping[str, str] | None = None,
    *,
    status: int = 200,
) -> Response:
    return visit.render(
        "admin/operations/warm_up.html", status=status, values=values, problems=problems or {}
    )


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as exc:
        problem = f"must be a day such as 2027-01-31, not {text[:20]!r}"
        raise Invalid("starts", problem) from exc


def _shown(domain: str) -> str:
    return "all emails" if domain == ALL else domain


VIEWS = (
    View(_PATH, plan, role=Role.ADMINISTRATOR, methods=("GET", "POST")),
    View(f"{_PATH}/remove", remove, role=Role.ADMINISTRATOR, methods=("POST",)),
)
