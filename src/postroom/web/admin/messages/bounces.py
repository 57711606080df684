"""The bounces and complaints of a message: by kind, with their texts."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoSuch
from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.storage import InvalidValue
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SHOWN: Final = 50


async def index(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    text, after = visit.parameter("kind"), visit.parameter("after") or None
    kind = BounceKind(text) if text in set(BounceKind) else None
    try:
        found = await visit.services.suppressions.bounces.slice(
            message.ref, kind, limit=_SHOWN, after=after
        )
    except InvalidValue as exc:
        raise NoSuch("page after", after or "") from exc
    query = {"kind": kind.value} if kind else {}
    return visit.render(
        "admin/messages/bounces.html",
        message=message,
        bounces=found.bounces,
        kind=kind,
        kinds=list(BounceKind),
        next_url=f"{visit.path}?{urlencode({**query, 'after': found.next})}" if found.next else "",
        first_url=f"{visit.path}?{urlencode(query)}" if after else "",
    )


VIEWS = (View("/messages/{ref}/bounces", index, right=ListRight.VIEW),)
