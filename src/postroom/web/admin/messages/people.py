"""Who opened a message and clicked its links, of those who agreed that it is recorded."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.audience.list_rights import ListRight
from postroom.domain.errors import NoSuch
from postroom.domain.messages.tracking import Track
from postroom.storage import InvalidValue
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SHOWN: Final = 50


async def index(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    after = visit.parameter("after") or None
    try:
        page = await visit.services.personal_hits.people(message, limit=_SHOWN, after=after)
    except InvalidValue as exc:
        raise NoSuch("page after", after or "") from exc
    return visit.render(
        "admin/messages/people.html",
        message=message,
        people=page.people,
        is_personal=message.track is Track.PERSONAL,
        next_url=f"{visit.path}?{urlencode({'after': page.next})}" if page.next else "",
        first_url=visit.path if after else "",
    )


VIEWS = (View("/messages/{ref}/people", index, right=ListRight.VIEW),)
