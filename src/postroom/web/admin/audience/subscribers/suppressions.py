"""Suppressed addresses: search, add, lift, import, export."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import urlencode

from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from postroom import clock
from postroom.domain.audience.suppressions import SuppressionReason, end_of_day
from postroom.domain.errors import Exists, Invalid, NoSuch
from postroom.services.accounts.users import Role
from postroom.services.audience.suppression.delivery_figures import DeliveryFigures
from postroom.services.audience.suppression.delivery_limits import GMAIL_COMPLAINTS, percent
from postroom.services.audience.suppression.suppression_files import (
    MOST_LINES,
    export_suppressions,
    import_suppressions,
)
from postroom.storage import InvalidValue
from postroom.web.rendering.templating import counted
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_PATH: Final = "/suppressions"
_SHOWN: Final = 50
_ERRORS_SHOWN: Final = 50
_LISTS_OFFERED: Final = 1000
_LONGEST_SEARCH: Final = 254
_PROVIDERS_SHOWN: Final = 10


async def index(visit: Visit) -> Response:
    part = visit.parameter("q").strip()[:_LONGEST_SEARCH]
    after = visit.parameter("after") or None
    try:
        found = await visit.services.suppressions.slice(contains=part, limit=_SHOWN, after=after)
    except InvalidValue as exc:
        raise NoSuch("page after", after or "") from exc
    query = {"q": part} if part else {}
    return visit.render(
        "admin/audience/suppressions.html",
        suppressions=found.suppressions,
        part=part,
        **await _rates(visit, is_first=after is None and not part),
        next_url=f"{_PATH}?{urlencode({**query, 'after': found.next})}" if found.next else "",
        first_url=f"{_PATH}?{urlencode(query)}" if after else "",
    )


async def _rates(visit: Visit, *, is_first: bool) -> dict[str, Any]:
    """Return the bounce and complaint rates of the last 30 days, for the first page."""
    if not is_first:
        return {"list_rates": [], "provider_rates": []}
    found = await visit.services.delivery_figures.of_period()
    reporting = {name: each for name, each in found.providers.items() if _reports(each)}
    worst = sorted(reporting.items(), key=lambda each: -_reports(each[1]))[:_PROVIDERS_SHOWN]
    return {
        "list_rates": sorted(found.lists.items()),
        "provider_rates": worst,
        "percent": percent,
        "most_complaints": GMAIL_COMPLAINTS,
    }


def _reports(figures: DeliveryFigures) -> int:
    return figures.bounced + figures.complained


async def add(visit: Visit) -> Response:
    if visit.request.method == "GET":
        values = {"email": visit.parameter("email"), "reason": SuppressionReason.REQUEST.value}
        return await _show_form(visit, values)
    given = {
        name: (await visit.text(name)).strip() for name in ("email", "reason", "list", "until")
    }
    try:
        created = await visit.services.suppressions.suppress(
            given["email"],
            given["reason"],
            source=visit.who.email,
            list_name=given["list"] or None,
            expires_at=_end_of(given["until"]),
        )
    except Invalid as exc:
        return await _show_form(visit, given, {exc.field: exc.problem}, status=422)
    except NoSuch as exc:
        return await _show_form(visit, given, {"list": str(exc)}, status=422)
    except Exists:
        problems = {"email": "is already suppressed"}
        return await _show_form(visit, given, problems, status=409)
    await visit.audit("suppressed address", created.address)
    return visit.redirect(_PATH, f"{created.address} suppressed.")


async def _show_form(
    visit: Visit,
    values: Mapping[str, str],
    problems: Mapping[str, str] | None = None,
    *,
    status: int = 200,
) -> Response:
    return visit.render(
        "admin/audience/suppression_add.html",
        status=status,
        values=values,
        problems=problems or {},
        lists=await visit.lists.names(limit=_LISTS_OFFERED),
        reasons=[each.value for each in SuppressionReason],
    )


def _end_of(text: str) -> datetime | None:
    """Return the end of a day, in UTC. `Invalid`."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError as exc:
        raise Invalid("until", f"must be a day such as 2027-01-31, not {text[:20]!r}") from exc
    return end_of_day(day, clock.now())


async def lift(visit: Visit) -> Response:
    is_asking = visit.request.method == "GET"
    email = visit.parameter("email") if is_asking else await visit.text("email")
    list_name = visit.parameter("list") if is_asking else await visit.text("list")
    found = await visit.services.suppressions.get(email, list_name or None)
    if is_asking:
        where = f"on {found.list_name}" if found.list_name else "on every list"
        points = [f"Suppressed {where}: {found.reason}."]
        if found.diagnostic:
            points.append(f"Last report: “{found.diagnostic}”")
        points.append("The address will receive email again. Earlier bounces no longer count.")
        return visit.render(
            "admin/confirm.html",
            title=f"Lift the suppression of {found.address}?",
            points=points,
            button="Lift suppression",
            fields={"email": found.address, "list": found.list_name or ""},
            back=_PATH,
            is_harmless=True,
        )
    await visit.services.suppressions.lift(email, list_name or None)
    await visit.audit("lifted suppression of", found.address)
    return visit.redirect(_PATH, f"{found.address} is no longer suppressed.")


async def import_file(visit: Visit) -> Response:
    values: dict[str, Any] = {"problem": "", "report": None, "most": MOST_LINES}
    if visit.request.method == "GET":
        return visit.render("admin/audience/suppression_import.html", **values)
    file = (await visit.form()).get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        values["problem"] = "Choose a CSV file."
        return visit.render("admin/audience/suppression_import.html", status=422, **values)
    data = await file.read()
    await file.close()
    try:
        report = await import_suppressions(
            visit.services.suppressions, data, source=visit.who.email, most=MOST_LINES
        )
    except Invalid as exc:
        values["problem"] = f"The file {exc.problem}."
        return visit.render("admin/audience/suppression_import.html", status=422, **values)
    await visit.audit("imported suppressions", file.filename)
    if not report.rejected:
        return visit.redirect(_PATH, f"{counted(report.added, 'address', 'addresses')} suppressed.")
    values |= {"report": report, "shown": report.rejected[:_ERRORS_SHOWN]}
    return visit.render("admin/audience/suppression_import.html", **values)


async def export(visit: Visit) -> Response:
    await visit.audit("exported suppressions")
    return StreamingResponse(
        export_suppressions(visit.services.suppressions),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="suppressions.csv"'},
    )


VIEWS = (
    View(_PATH, index, role=Role.VIEWER),
    View(f"{_PATH}/add", add, role=Role.EDITOR, methods=("GET", "POST")),
    View(f"{_PATH}/lift", lift, role=Role.EDITOR, methods=("GET", "POST")),
    View(f"{_PATH}/import", import_file, role=Role.EDITOR, methods=("GET", "POST")),
    View(f"{_PATH}/export", export, role=Role.EDITOR),
)
