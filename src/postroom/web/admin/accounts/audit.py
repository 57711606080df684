"""The audit log."""

from __future__ import annotations

from datetime import date
from typing import Final

from starlette.responses import Response

from postroom.services.accounts.audit import Action
from postroom.services.accounts.users import Role
from postroom.web.rendering.sorting import Column, Sortable, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_ROWS_SHOWN = 100
_INDEX: Final = Sortable[Action](
    {
        "time": Column("Time", lambda each: each.at, largest_first=True),
        "actor": Column("Actor", lambda each: each.who),
        "action": Column("Action", lambda each: each.what),
        "target": Column("Target", lambda each: each.on),
        "from": Column("IP address", lambda each: each.place),
    },
    natural="-time",
    in_words="Newest first",
    advice="Filter by day or actor.",
)


async def audit(visit: Visit) -> Response:
    who, day_text = visit.parameter("who").strip(), visit.parameter("day").strip()
    day, problem = read_day(day_text)
    sorting = Sorting(visit, _INDEX, {"who": who, "day": day_text}, rows_shown=_ROWS_SHOWN)
    log, shown = visit.services.audit, None
    if not sorting.is_natural:
        shown = sorting.page_of(await log.whole(who=who, day=day, most=sorting.most))
    if shown is None:
        after = visit.parameter("after") or None
        found = await log.page(who=who, day=day, limit=_ROWS_SHOWN, after=after)
        shown = found.actions
        sorting.in_key_order(found.next)
    return visit.render(
        "admin/accounts/audit.html",
        actions=shown,
        users=[user.email for user in await visit.services.users.all()],
        keys={key.principal: key.name for key in await visit.services.keys.all()},
        who=who,
        day=day_text,
        problem=problem,
        sorting=sorting,
    )


def read_day(text: str) -> tuple[date | None, str]:
    """Parse a day as browsers write it; return it and an error message."""
    if not text:
        return None, ""
    try:
        return date.fromisoformat(text), ""
    except ValueError:
        return None, f"The day must look like 2026-11-15, not {text[:20]!r}. Showing all days."


VIEWS = (View("/audit", audit, role=Role.ADMINISTRATOR),)
