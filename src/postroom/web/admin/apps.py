"""Hosted applications: what runs where and why not, and which of them gets a queue."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from postroom.services.users import Role
from postroom.web.routing import Page
from postroom.web.visit import Visit


async def apps(visit: Visit) -> Response:
    states, hosts = await asyncio.gather(
        visit.services.apps.states(), visit.services.hosts.current()
    )
    if visit.is_partial:
        return visit.page("admin/apps_live.html", apps=states, hosts=hosts)
    asked = visit.parameter("queue").strip()
    match = await visit.services.apps.explain(asked) if asked else None
    return visit.page("admin/apps.html", apps=states, hosts=hosts, asked=asked, match=match)


PAGES = (Page("/apps", apps, role=Role.VIEWER),)
