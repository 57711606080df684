"""Messages that are scheduled or being sent, and those that are done."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.services.accounts.users import Role
from postroom.web.rendering.sorting import ROWS_SHOWN, Sortable, SortColumn, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_MOST_READS: Final = 4  # of messages for one response, while filtering
OPEN: Final = tuple(status for status in MessageStatus if status not in FINAL)
_STATUS_ORDER: Final = list(MessageStatus)
_MOST_SORTED: Final = 3_000  # messages, which take 30 µs each to read


def _counts(message: Message) -> Counts:
    return message.counts or Counts()


_COLUMNS: Final[dict[str, SortColumn[Message]]] = {
    "subject": SortColumn("Subject", lambda each: each.subject),
    "list": SortColumn("List", lambda each: each.list_name),
    "status": SortColumn("Status", lambda each: _STATUS_ORDER.index(each.status)),
    "time": SortColumn("Scheduled", lambda each: each.scheduled_at, largest_first=True),
}
_OPEN_INDEX: Final = Sortable(
    _COLUMNS,
    key_order="time",
    order_label="Sorted by scheduled time",
    max_rows=_MOST_SORTED,
)
_ARCHIVE_INDEX: Final = Sortable(
    {
        **_COLUMNS,
        "recipients": SortColumn("Recipients", lambda each: _counts(each).planned, is_number=True),
        "accepted": SortColumn("Accepted", lambda each: _counts(each).accepted, is_number=True),
        "refused": SortColumn("Refused", lambda each: _counts(each).refused, is_number=True),
        "skipped": SortColumn("Skipped", lambda each: _counts(each).suppressed, is_number=True),
        "uncertain": SortColumn("Uncertain", lambda each: _counts(each).in_doubt, is_number=True),
    },
    key_order="-time",
    order_label="Latest first",
    max_rows=_MOST_SORTED,
)


async def index(visit: Visit) -> Response:
    status, of_list = visit.parameter("status"), visit.parameter("list").strip()
    filters = {"status": status, "list": of_list}
    sorting = Sorting(visit, _OPEN_INDEX, filters)
    shown = None
    if not sorting.is_key_order:
        whole = await visit.services.times.whole(done=False, most=sorting.max_rows)
        if whole is not None:
            whole = [each for each in whole if _fits(each, status, of_list)]
        shown = sorting.select(whole)
    if shown is None:
        shown, following = await _by_time(visit, status, of_list)
        sorting.continue_after(following)
    return visit.render(
        "admin/messages/messages.html",
        messages=shown,
        statuses=[each.value for each in OPEN],
        wanted=status,
        of_list=of_list,
        sorting=sorting,
    )


async def archive(visit: Visit) -> Response:
    sorting = Sorting(visit, _ARCHIVE_INDEX, {})
    shown = None
    if not sorting.is_key_order:
        whole = await visit.services.times.whole(done=True, most=sorting.max_rows)
        shown = sorting.select(whole)
    if shown is None:
        before = visit.parameter("before") or None
        page = await visit.services.times.done(limit=ROWS_SHOWN, before=before)
        shown = page.messages
        sorting.continue_after(page.next, "before")
    return visit.render("admin/messages/archive.html", messages=shown, sorting=sorting)


async def _by_time(visit: Visit, status: str, of_list: str) -> tuple[list[Message], str | None]:
    """Return matching messages of a limited number of reads, and where to continue."""
    found: list[Message] = []
    following = visit.parameter("after") or None
    for _ in range(_MOST_READS if status or of_list else 1):
        page = await visit.services.messages.page(limit=ROWS_SHOWN, after=following)
        found += [each for each in page.messages if _fits(each, status, of_list)]
        following = page.next
        if following is None or len(found) >= ROWS_SHOWN:
            break
    return found, following


def _fits(message: Message, status: str, of_list: str) -> bool:
    return (not status or message.status == status) and (
        not of_list or message.list_name == of_list
    )


VIEWS = (
    View("/messages", index, role=Role.VIEWER),
    View("/archive", archive, role=Role.VIEWER),
)
