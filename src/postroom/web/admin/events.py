"""Events: what happened by itself."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from postroom.services.events import Event, Severity
from postroom.services.users import Role
from postroom.web.admin.audit import first_url, next_url, read_day
from postroom.web.routing import Page
from postroom.web.visit import Visit

_ON_A_PAGE = 100
_PLACES = {
    "message": "/messages/{}",
    "list": "/lists/{}",
    "queue": "/queues/{}",
    "user": "/users/details?email={}",
}


async def events(visit: Visit) -> Response:
    severity, day_text = visit.parameter("severity"), visit.parameter("day").strip()
    day, problem = read_day(day_text)
    least = Severity(severity) if severity in list(Severity) else Severity.INFO
    found = await visit.services.events.page(
        least=least, day=day, limit=_ON_A_PAGE, after=visit.parameter("after") or None
    )
    shown = "" if least is Severity.INFO else least.value
    return visit.page(
        "admin/events.html",
        events=[(event, _place(event, visit)) for event in found.events],
        severity=least,
        Severity=Severity,
        day=day_text,
        problem=problem,
        is_filtered=bool(shown or day),
        next_url=next_url("/events", found.next, severity=shown, day=day_text),
        first_url=first_url(visit, "/events", severity=shown, day=day_text),
    )


def _place(event: Event, visit: Visit) -> str:
    """Where the thing that an event is about is shown, if this user may see that."""
    kind, _, name = event.subject.partition(":")
    if kind == "app":
        return "/apps"
    if kind == "user" and not visit.may(Role.ADMINISTRATOR):
        return ""
    return _PLACES[kind].format(quote(name, safe="")) if kind in _PLACES else ""


PAGES = (Page("/events", events, role=Role.VIEWER),)
