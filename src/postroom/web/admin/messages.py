"""Messages: those that are open, and the archive of those that are done."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.messages import FINAL, Message, MessageStatus
from postroom.services.users import Role
from postroom.web.routing import Page
from postroom.web.visit import Visit

_A_PAGE: Final = 50
_LOOKS: Final = 4  # at so many pages of the index, for one answer
OPEN: Final = tuple(status for status in MessageStatus if status not in FINAL)


async def index(visit: Visit) -> Response:
    status, of_list = visit.parameter("status"), visit.parameter("list").strip()
    after = visit.parameter("after") or None
    found: list[Message] = []
    following = after
    for _ in range(_LOOKS if status or of_list else 1):
        page = await visit.services.messages.page(limit=_A_PAGE, after=following)
        found += [each for each in page.messages if _fits(each, status, of_list)]
        following = page.next
        if following is None or len(found) >= _A_PAGE:
            break
    query = {name: text for name, text in (("status", status), ("list", of_list)) if text}
    return visit.page(
        "admin/messages.html",
        messages=found,
        statuses=[each.value for each in OPEN],
        wanted=status,
        of_list=of_list,
        next_url=f"/messages?{urlencode({**query, 'after': following})}" if following else "",
        first_url=f"/messages?{urlencode(query)}" if after else "",
    )


async def archive(visit: Visit) -> Response:
    before = visit.parameter("before") or None
    page = await visit.services.times.done(limit=_A_PAGE, before=before)
    return visit.page(
        "admin/archive.html",
        messages=page.messages,
        next_url=f"/archive?{urlencode({'before': page.next})}" if page.next else "",
        first_url="/archive" if before else "",
    )


def _fits(message: Message, status: str, of_list: str) -> bool:
    return (not status or message.status == status) and (
        not of_list or message.list_name == of_list
    )


PAGES = (
    Page("/messages", index, role=Role.VIEWER),
    Page("/archive", archive, role=Role.VIEWER),
)
