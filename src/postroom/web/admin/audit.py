"""The audit log: who did what."""

from __future__ import annotations

from datetime import date
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.services.users import Role
from postroom.web.routing import Page
from postroom.web.visit import Visit

_ON_A_PAGE = 100


async def audit(visit: Visit) -> Response:
    who, day_text = visit.parameter("who").strip(), visit.parameter("day").strip()
    day, problem = read_day(day_text)
    found = await visit.services.audit.page(
        who=who, day=day, limit=_ON_A_PAGE, after=visit.parameter("after") or None
    )
    return visit.page(
        "admin/audit.html",
        actions=found.actions,
        users=[user.email for user in await visit.services.users.all()],
        keys={key.principal: key.name for key in await visit.services.keys.all()},
        who=who,
        day=day_text,
        problem=problem,
        next_url=next_url("/audit", found.next, who=who, day=day_text),
        first_url=first_url(visit, "/audit", who=who, day=day_text),
    )


def read_day(text: str) -> tuple[date | None, str]:
    """A day as browsers write it, and what is wrong with it."""
    if not text:
        return None, ""
    try:
        return date.fromisoformat(text), ""
    except ValueError:
        return None, "A day is written like 2026-11-15: all days are shown."


def next_url(path: str, token: str | None, **query: str) -> str:
    if token is None:
        return ""
    return _address(path, {**query, "after": token})


def first_url(visit: Visit, path: str, **query: str) -> str:
    return _address(path, query) if visit.parameter("after") else ""


def _address(path: str, query: dict[str, str]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


PAGES = (Page("/audit", audit, role=Role.ADMINISTRATOR),)
