"""Events: what happened by itself."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from postroom.services.accounts.users import Role
from postroom.services.events import Event, Severity
from postroom.web.admin.accounts.audit import read_day
from postroom.web.rendering.sorting import Column, Sortable, Sorting
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_ON_A_PAGE = 100
_GRAVITY: Final = list(Severity)
_INDEX: Final = Sortable[Event](
    {
        "when": Column("When", lambda each: each.at, largest_first=True),
        "severity": Column(
            "How grave", lambda each: _GRAVITY.index(each.severity), largest_first=True
        ),
        "part": Column("Part", lambda each: each.part),
        "text": Column("What happened", lambda each: each.text),
    },
    natural="-when",
    in_words="Newest first",
    advice="Choose a day, or graver ones.",
)
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
    chosen = "" if least is Severity.INFO else least.value
    sorting = Sorting(visit, _INDEX, {"severity": chosen, "day": day_text}, a_page=_ON_A_PAGE)
    log, shown = visit.services.events, None
    if not sorting.is_natural:
        shown = sorting.page_of(await log.whole(least=least, day=day, most=sorting.most))
    if shown is None:
        after = visit.parameter("after") or None
        found = await log.page(least=least, day=day, limit=_ON_A_PAGE, after=after)
        shown = found.events
        sorting.in_key_order(found.next)
    return visit.page(
        "admin/operations/events.html",
        events=[(event, _place(event, visit)) for event in shown],
        severity=least,
        Severity=Severity,
        day=day_text,
        problem=problem,
        is_filtered=bool(chosen or day),
        sorting=sorting,
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
