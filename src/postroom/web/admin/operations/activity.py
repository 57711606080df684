"""The two logs: system activity, and the audit log of what people did."""

from __future__ import annotations

from datetime import date
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from postroom.services.accounts.audit import AuditEntry
from postroom.services.accounts.users import Role
from postroom.services.events import Event, Severity
from postroom.web.rendering.sorting import Sortable, SortColumn, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_ROWS_SHOWN: Final = 100
_SEVERITIES: Final = list(Severity)
_EVENTS: Final = Sortable[Event](
    {
        "time": SortColumn("Time", lambda each: each.at, largest_first=True),
        "severity": SortColumn(
            "Severity", lambda each: _SEVERITIES.index(each.severity), largest_first=True
        ),
        "source": SortColumn("Source", lambda each: each.part),
        "event": SortColumn("Event", lambda each: each.text),
    },
    key_order="-time",
    order_label="Newest first",
    advice="Filter by day or severity.",
)
_AUDIT: Final = Sortable[AuditEntry](
    {
        "time": SortColumn("Time", lambda each: each.at, largest_first=True),
        "actor": SortColumn("Actor", lambda each: each.who),
        "action": SortColumn("Action", lambda each: each.what),
        "target": SortColumn("Target", lambda each: each.on),
        "from": SortColumn("IP address", lambda each: each.place),
    },
    key_order="-time",
    order_label="Newest first",
    advice="Filter by day or actor.",
)
_URLS: Final = {
    "message": "/messages/{}",
    "list": "/lists/{}",
    "queue": "/queues/{}",
    "user": "/users/details?email={}",
}


async def events(visit: Visit) -> Response:
    severity, day_text = visit.parameter("severity"), visit.parameter("day").strip()
    day, problem = _parse_day(day_text)
    least = Severity(severity) if severity in _SEVERITIES else Severity.INFO
    chosen = "" if least is Severity.INFO else least.value
    filters = {"severity": chosen, "day": day_text}
    sorting = Sorting(visit, _EVENTS, filters, rows_shown=_ROWS_SHOWN)
    log, shown = visit.services.events, None
    if not sorting.is_key_order:
        shown = sorting.select(await log.whole(least=least, day=day, most=sorting.max_rows))
    if shown is None:
        after = visit.parameter("after") or None
        found = await log.slice(least=least, day=day, limit=_ROWS_SHOWN, after=after)
        shown = found.events
        sorting.continue_after(found.next)
    return visit.render(
        "admin/operations/events.html",
        events=[(event, _url(event, visit)) for event in shown],
        severity=least,
        Severity=Severity,
        day=day_text,
        problem=problem,
        is_filtered=bool(chosen or day),
        sorting=sorting,
    )


async def audit(visit: Visit) -> Response:
    who, day_text = visit.parameter("who").strip(), visit.parameter("day").strip()
    day, problem = _parse_day(day_text)
    sorting = Sorting(visit, _AUDIT, {"who": who, "day": day_text}, rows_shown=_ROWS_SHOWN)
    log, shown = visit.services.audit, None
    if not sorting.is_key_order:
        shown = sorting.select(await log.whole(who=who, day=day, most=sorting.max_rows))
    if shown is None:
        after = visit.parameter("after") or None
        found = await log.newest(who=who, day=day, limit=_ROWS_SHOWN, after=after)
        shown = found.entries
        sorting.continue_after(found.next)
    return visit.render(
        "admin/operations/audit.html",
        entries=shown,
        users=[user.email for user in await visit.services.users.all()],
        keys={key.principal: key.name for key in await visit.services.keys.all()},
        who=who,
        day=day_text,
        problem=problem,
        sorting=sorting,
    )


def _parse_day(text: str) -> tuple[date | None, str]:
    """Parse a day as browsers write it; return it and an error message."""
    if not text:
        return None, ""
    try:
        return date.fromisoformat(text), ""
    except ValueError:
        return None, f"The day must look like 2026-11-15, not {text[:20]!r}. Showing all days."


def _url(event: Event, visit: Visit) -> str:
    """Return the page about the subject of an event, if this user may see it."""
    kind, _, name = event.subject.partition(":")
    if kind == "app":
        return "/apps"
    if kind == "user" and not visit.may(Role.ADMINISTRATOR):
        return ""
    return _URLS[kind].format(quote(name, safe="")) if kind in _URLS else ""


VIEWS = (
    View("/events", events, role=Role.VIEWER),
    View("/audit", audit, role=Role.ADMINISTRATOR),
)
