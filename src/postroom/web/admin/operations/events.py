"""System activity: events that Postroom recorded on its own."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from postroom.services.accounts.users import Role
from postroom.services.events import Event, Severity
from postroom.web.admin.accounts.audit import read_day
from postroom.web.rendering.sorting import Column, Sortable, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_ROWS_SHOWN = 100
_SEVERITIES: Final = list(Severity)
_INDEX: Final = Sortable[Event](
    {
        "time": Column("Time", lambda each: each.at, largest_first=True),
        "severity": Column(
            "Severity", lambda each: _SEVERITIES.index(each.severity), largest_first=True
        ),
        "source": Column("Source", lambda each: each.part),
        "event": Column("Event", lambda each: each.text),
    },
    natural="-time",
    in_words="Newest first",
    advice="Filter by day or severity.",
)
_URLS = {
    "message": "/messages/{}",
    "list": "/lists/{}",
    "queue": "/queues/{}",
    "user": "/users/details?email={}",
}


async def events(visit: Visit) -> Response:
    severity, day_text = visit.parameter("severity"), visit.parameter("day").strip()
    day, problem = read_day(day_text)
    least = Severity(severity) if severity in list(Severity) else Severity.INFO
    chosen = "" if least is Severity.INFO else least.value
    sorting = Sorting(visit, _INDEX, {"severity": chosen, "day": day_text}, rows_shown=_ROWS_SHOWN)
    log, shown = visit.services.events, None
    if not sorting.is_natural:
        shown = sorting.page_of(await log.whole(least=least, day=day, most=sorting.most))
    if shown is None:
        after = visit.parameter("after") or None
        found = await log.page(least=least, day=day, limit=_ROWS_SHOWN, after=after)
        shown = found.events
        sorting.in_key_order(found.next)
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


def _url(event: Event, visit: Visit) -> str:
    """Return the page about the subject of an event, if this user may see it."""
    kind, _, name = event.subject.partition(":")
    if kind == "app":
        return "/apps"
    if kind == "user" and not visit.may(Role.ADMINISTRATOR):
        return ""
    return _URLS[kind].format(quote(name, safe="")) if kind in _URLS else ""


VIEWS = (View("/events", events, role=Role.VIEWER),)
