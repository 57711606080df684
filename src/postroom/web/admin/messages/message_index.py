"""Messages by tab: drafts, scheduled, being sent, and sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec
from starlette.responses import RedirectResponse, Response

from postroom import clock
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.services.messages.message_rows import MessagePart
from postroom.web.admin.messages.under_way import under_way
from postroom.web.rendering.navigation import TabLink
from postroom.web.rendering.sorting import ROWS_SHOWN, Sortable, SortColumn, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_MOST_READS: Final = 4  # of messages for one response, while filtering
_MOST_COUNTED: Final = 100  # messages that a tab counts; more are shown as "99+"
_MOST_CHOICES: Final = 100  # lists in the filter
_STATUS_ORDER: Final = list(MessageStatus)
_MOST_SORTED: Final = 3_000  # messages, which take 30 µs each to read


def _counts(message: Message) -> Counts:
    return message.counts or Counts()


_SUBJECT: Final[SortColumn[Message]] = SortColumn("Subject", lambda each: each.subject)
_COLUMNS: Final[dict[str, SortColumn[Message]]] = {
    "status": SortColumn("Status", lambda each: _STATUS_ORDER.index(each.status)),
    "time": SortColumn("Scheduled", lambda each: each.due_at, largest_first=True),
}
_OPEN_INDEX: Final = Sortable(
    {
        "subject": _SUBJECT,
        "list": SortColumn("List", lambda each: each.list_name),
        **_COLUMNS,
    },
    key_order="time",
    order_label="Sorted by scheduled time",
    max_rows=_MOST_SORTED,
)
_DRAFT_INDEX: Final[Sortable[Message]] = Sortable(
    {
        "subject": _SUBJECT,
        "list": SortColumn("List", lambda each: each.list_name),
        "edited": SortColumn("Edited", lambda each: each.edited_at, largest_first=True),
    },
    key_order="-edited",
    order_label="Last edited first",
)
_SENT_INDEX: Final = Sortable(
    {
        "subject": _SUBJECT,
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


class MessageTab(StrEnum):
    DRAFTS = "Drafts"
    SCHEDULED = "Scheduled"
    SENDING = "Sending"
    SENT = "Sent"

    @property
    def url(self) -> str:
        return "/messages" if self is MessageTab.SCHEDULED else f"/messages/{self.lower()}"


class _Filter(msgspec.Struct, frozen=True):
    """The messages of a tab, and of one list if it is named."""

    tab: MessageTab
    of_list: str
    now: datetime

    def fits(self, message: Message) -> bool:
        if self.of_list and self.of_list not in message.lists:
            return False
        if self.tab is not MessageTab.SENT and message.status is MessageStatus.CANCELLED:
            return False  # it is on the tab Sent as soon as the scheduler has archived it
        # By time, not by status: a paused message waits on the tab where it was.
        is_due = message.due_at <= self.now
        return self.tab is MessageTab.SENT or is_due == (self.tab is MessageTab.SENDING)


def index(tab: MessageTab) -> Callable[[Visit], Awaitable[Response]]:
    """Return the endpoint that shows this tab."""
    is_sent = tab is MessageTab.SENT

    async def show(visit: Visit) -> Response:
        wanted = _Filter(tab, visit.parameter("list").strip(), clock.now())
        sorting = Sorting(visit, _SENT_INDEX if is_sent else _OPEN_INDEX, {"list": wanted.of_list})
        shown = None
        if wanted.of_list or not sorting.is_key_order:
            part = MessagePart.DONE if is_sent else MessagePart.OPEN
            whole = await visit.messages.whole(part, most=sorting.max_rows)
            if whole is not None:
                whole = [each for each in whole if wanted.fits(each)]
                if is_sent and sorting.is_key_order:
                    whole.reverse()
            shown = sorting.select(whole)
        if shown is None:
            field = "before" if is_sent else "after"
            shown, following = await _by_time(visit, wanted, visit.parameter(field) or None)
            sorting.continue_after(following, field)
        is_sending = tab is MessageTab.SENDING
        return visit.render(
            f"admin/messages/{'messages_tab' if visit.is_partial else 'messages'}.html",
            messages=shown,
            sending=await under_way(visit, shown) if is_sending else [],
            tab=tab,
            tabs=await _tabs(visit, tab),
            of_list=wanted.of_list,
            list_names=await _list_names(visit),
            sorting=sorting,
        )

    show.__name__ = f"messages_{tab.lower()}"
    return show


async def drafts(visit: Visit) -> Response:
    """Show all drafts, the last edited first."""
    of_list = visit.parameter("list").strip()
    sorting = Sorting(visit, _DRAFT_INDEX, {"list": of_list})
    found = await visit.messages.drafts(limit=sorting.max_rows)
    shown = sorting.select([each for each in found if of_list in ("", *each.lists)])
    return visit.render(
        "admin/messages/messages.html",
        messages=shown,
        tab=MessageTab.DRAFTS,
        tabs=await _tabs(visit, MessageTab.DRAFTS),
        of_list=of_list,
        list_names=await _list_names(visit),
        sorting=sorting,
    )


async def _by_time(
    visit: Visit, wanted: _Filter, following: str | None
) -> tuple[list[Message], str | None]:
    """Return matching messages of a limited number of reads, and where to continue."""
    found: list[Message] = []
    for _ in range(_MOST_READS):
        if wanted.tab is MessageTab.SENT:
            newest = await visit.messages.done(limit=ROWS_SHOWN, before=following)
            messages, following = newest.messages, newest.next
        else:
            part = await visit.messages.slice(limit=ROWS_SHOWN, after=following)
            messages, following = part.messages, part.next
        found += [each for each in messages if wanted.fits(each)]
        if following is None or len(found) >= ROWS_SHOWN or visit.messages.has_read_enough:
            break
    return found, following


async def _list_names(visit: Visit) -> list[ListName]:
    """Return the lists to choose from; none if there are too many, and a name is typed instead."""
    names = await visit.lists.names(limit=_MOST_CHOICES + 1)
    return names if len(names) <= _MOST_CHOICES else []


async def _tabs(visit: Visit, current: MessageTab) -> list[TabLink]:
    """Return the tabs with the number of messages that are not sent yet."""
    open_ones = await visit.messages.count_open(most=_MOST_COUNTED)
    counts = {
        MessageTab.DRAFTS: await visit.messages.count_drafts(most=_MOST_COUNTED),
        MessageTab.SCHEDULED: open_ones.upcoming,
        MessageTab.SENDING: open_ones.under_way,
    }
    return [
        TabLink(tab.url, tab.value, tab is current, _shown(counts.get(tab, 0)))
        for tab in MessageTab
    ]


def _shown(count: int) -> str:
    return "99+" if count >= _MOST_COUNTED else str(count or "")


async def _sent(visit: Visit) -> Response:
    """Redirect bookmarks of the page that is now the tab Sent."""
    return RedirectResponse(MessageTab.SENT.url, 301)


VIEWS = (
    View(MessageTab.DRAFTS.url, drafts, right=ListRight.VIEW),
    *(
        View(tab.url, index(tab), right=ListRight.VIEW)
        for tab in MessageTab
        if tab is not MessageTab.DRAFTS
    ),
    View("/archive", _sent, right=ListRight.VIEW),
)
