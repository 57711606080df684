"""The audit log: who did what."""

from __future__ import annotations

from datetime import date
from typing import Final

from starlette.responses import Response

from postroom.services.accounts.audit import Action
from postroom.services.accounts.users import Role
from postroom.web.rendering.sorting import Column, Sortable, Sorting
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_ON_A_PAGE = 100
_INDEX: Final = Sortable[Action](
    {
        "when": Column("When", lambda each: each.at, largest_first=True),
        "who": Column("Who", lambda each: each.who),
        "what": Column("What", lambda each: each.what),
        "on": Column("On", lambda each: each.on),
        "from": Column("From", lambda each: each.place),
    },
    natural="-when",
    in_words="Newest first",
    advice="Choose a day or somebody.",
)


async def audit(visit: Visit) -> Response:
    who, day_text = visit.parameter("who").strip(), visit.parameter("day").strip()
    day, problem = read_day(day_text)
    sorting = Sorting(visit, _INDEX, {"who": who, "day": day_text}, a_page=_ON_A_PAGE)
    log, shown = visit.services.audit, None
    if not sorting.is_natural:
        shown = sorting.page_of(await log.whole(who=who, day=day, most=sorting.most))
    if shown is None:
        after = visit.parameter("after") or None
        found = await log.page(who=who, day=day, limit=_ON_A_PAGE, after=after)
        shown = found.actions
        sorting.in_key_order(found.next)
    return visit.page(
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
    """A day as browsers write it, and what is wrong with it."""
    if not text:
        return None, ""
    try:
        return date.fromisoformat(text), ""
    except ValueError:
        return None, "A day is written like 2026-11-15: all days are shown."


PAGES = (Page("/audit", audit, role=Role.ADMINISTRATOR),)
