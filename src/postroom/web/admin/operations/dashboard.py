"""The home page: messages being sent, scheduled and sent, list growth, health."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, time
from typing import Any

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists import MailingList
from postroom.domain.messages.messages import Message
from postroom.services.accounts.users import Role
from postroom.services.audience.list_growth import GrowthPoint, ListSize
from postroom.services.messages.hold_rows import describe
from postroom.services.messages.holds import message_key
from postroom.services.messages.progress import Progress
from postroom.transport.contract import FaultScope
from postroom.web.admin.messages.message_details import shown_holds
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_IN_PROGRESS = 20
_SCHEDULED = 5
_RECENT = 8
_LISTS_SHOWN = 5
_DAYS = 90
_LISTS_LOOKED_AT = 20
_SUBSCRIBERS_LOOKED_AT = 20


class MessageProgress(msgspec.Struct, frozen=True):
    """A message and its progress."""

    message: Message
    progress: Progress


class Growth(msgspec.Struct, frozen=True):
    """The largest lists, all lists together by day, and the data of the plot."""

    sizes: list[ListSize]
    days: list[GrowthPoint]
    plot: str


class FirstSteps(msgspec.Struct, frozen=True):
    """What a new user has done already. `list_name` is the list that the steps refer to, and
    `is_public` whether anyone can sign up for it."""

    list_name: str
    is_public: bool
    has_subscriber: bool
    has_verified: bool
    has_message: bool

    @property
    def are_done(self) -> bool:
        return bool(self.list_name) and self.has_subscriber and self.has_message


async def dashboard(visit: Visit) -> Response:
    live, scheduled, recent, growth, steps = await asyncio.gather(
        _live(visit),
        visit.services.times.to_come(limit=_SCHEDULED),
        _recent(visit),
        _growth(visit),
        _first_steps(visit),
    )
    return visit.render(
        "admin/operations/dashboard.html",
        **live,
        scheduled=scheduled,
        recent=recent,
        growth=growth,
        steps=steps,
    )


async def live(visit: Visit) -> Response:
    """Render the part that the page polls."""
    return visit.render("admin/operations/dashboard_live.html", **await _live(visit))


async def _live(visit: Visit) -> dict[str, Any]:
    under_way, health, holds, space = await asyncio.gather(
        visit.services.times.under_way(limit=_IN_PROGRESS),
        visit.services.health.look(),
        visit.services.holds.open_holds(),
        visit.services.space_waits.current(),
    )
    moving = await _with_progress(visit, under_way)
    wide = [hold for hold in holds.by_key.values() if hold.scope is not FaultScope.MESSAGE]
    return {
        "in_progress": moving,
        "health": health,
        "holds": shown_holds(wide),
        "space": space,
        "held": {
            each.message.ref: describe(holds.by_key[key])
            for each in moving
            if (key := message_key(each.message.ref)) in holds
        },
    }


async def _recent(visit: Visit) -> list[MessageProgress]:
    return await _with_progress(visit, (await visit.services.times.done(limit=_RECENT)).messages)


async def _with_progress(visit: Visit, messages: list[Message]) -> list[MessageProgress]:
    progress = await asyncio.gather(*(visit.services.progress.of(each) for each in messages))
    return [
        MessageProgress(message, where) for message, where in zip(messages, progress, strict=True)
    ]


async def _growth(visit: Visit) -> Growth:
    growth = visit.services.growth
    sizes = (await growth.sizes())[:_LISTS_SHOWN]
    everything, *lists = await asyncio.gather(
        growth.history(days=_DAYS), *(growth.history(size.name, days=_DAYS) for size in sizes)
    )
    named = {"All lists": everything}
    if len(sizes) > 1:
        named |= {size.name: days for size, days in zip(sizes, lists, strict=True)}
    return Growth(sizes, everything, _plot(named))


def _plot(named: dict[str, list[GrowthPoint]]) -> str:
    """Return the JSON for `static/plots.js`: times in seconds, and a value or null for each."""
    days = sorted({point.day for points in named.values() for point in points})
    series = []
    for label, points in named.items():
        values = {point.day: point.subscribers for point in points}
        series.append({"label": label, "values": [values.get(day) for day in days]})
    moments = [int(datetime.combine(day, time(), UTC).timestamp()) for day in days]
    return json.dumps({"moments": moments, "series": series})


async def _first_steps(visit: Visit) -> FirstSteps:
    """Find out which steps are done, looking at a limited number of lists."""
    lists = (await visit.services.lists.page(limit=_LISTS_LOOKED_AT)).lists
    if not lists:
        return FirstSteps("", True, False, False, False)
    messages = await visit.services.times.all(limit=1)
    begun, has_verified = await _with_subscribers(visit, lists)
    has_subscriber = begun is not None or await _any_subscribers(visit)
    # Prefer a list that anyone can sign up for.
    shown = begun or next((each for each in lists if each.public), lists[0])
    return FirstSteps(
        shown.name, shown.public, has_subscriber, has_verified, bool(messages.messages)
    )


async def _with_subscribers(
    visit: Visit, lists: list[MailingList]
) -> tuple[MailingList | None, bool]:
    """Return the first list with a subscriber, and whether one of its first subscribers is
    confirmed."""
    for each in lists:
        page = await visit.services.subscriptions.page(each.name, limit=_SUBSCRIBERS_LOOKED_AT)
        if page.subscribers:
            return each, any(one.verified for one in page.subscribers)
    return None, False


async def _any_subscribers(visit: Visit) -> bool:
    """Return whether any list had a subscriber when lists were last counted."""
    return any(size.subscribers for size in await visit.services.growth.sizes())


VIEWS = (
    View("/", dashboard, role=Role.VIEWER),
    View("/dashboard/live", live, role=Role.VIEWER),
)
