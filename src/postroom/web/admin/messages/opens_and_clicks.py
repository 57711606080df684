"""What recipients did with a message: where they clicked, and who opened it and clicked its links,
of those who agreed that it is recorded."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoSuch
from postroom.domain.messages.tracking import Track
from postroom.mail.tracking.link_marks import LinkMark, with_marks
from postroom.services.audience.results.message_results import MessageResults
from postroom.storage import InvalidValue
from postroom.web.admin.messages.drafting.previews import html_of_message
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SHOWN: Final = 50


async def people(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    after = visit.parameter("after") or None
    try:
        found = await visit.services.personal_hits.people(message, limit=_SHOWN, after=after)
    except InvalidValue as exc:
        raise NoSuch("page after", after or "") from exc
    return visit.render(
        "admin/messages/people.html",
        message=message,
        people=found.people,
        is_personal=message.track is Track.PERSONAL,
        next_url=f"{visit.path}?{urlencode({'after': found.next})}" if found.next else "",
        first_url=visit.path if after else "",
    )


def marks_of(results: MessageResults) -> dict[str, LinkMark]:
    """Return the clicks of each link, and their share of all clicks on links."""
    total = sum(each.clicks for each in results.links)
    return {
        each.url: LinkMark(
            f"{each.clicks:,} · {each.clicks / total:.0%}" if total else "0",
            each.clicks / total if total else 0.0,
        )
        for each in results.links
    }


async def heat_map(visit: Visit) -> Response:
    """Show the message with the clicks of each of its links."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    results = await visit.services.results.of_message(message)
    document, base_url = await html_of_message(visit), visit.context.base_url
    marked = await asyncio.to_thread(with_marks, document, base_url, marks_of(results))
    return sandboxed(marked, base_url=base_url)


VIEWS = (
    View("/messages/{ref}/people", people, right=ListRight.VIEW),
    View("/messages/{ref}/heat-map", heat_map, right=ListRight.VIEW, uses_rules=False),
)
