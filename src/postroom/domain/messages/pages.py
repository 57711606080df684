"""Pages and work items: the name of a page, and the queue message that stands for it."""

from __future__ import annotations

import re
from sys import intern

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.refs import MessageRef

PAGE_SIZE = 100
"""Emails of a page: as many as one atomic batch of the store can hold."""

SEND_QUEUE = "mail/send"
CONFIRM_QUEUE = "mail/confirm"
SCHEDULE_QUEUE = "mail/schedule"
"""Wakes the scheduler when a message was scheduled, resumed or cancelled; holds its reference."""
SUPPRESS_QUEUE = "mail/suppress"
"""What is left to do about suppressions: see `scheduler/suppression_work.py`."""

_WORK_ITEM = re.compile(r"(\d{4}-\d{2}-\d{2}),(\d{18}),(\d{6}),([01])", re.ASCII)


class WorkItem(msgspec.Struct, frozen=True):
    """One page to send. `restarted`: the item was created again after an interruption."""

    day: str
    ref: MessageRef
    page: int
    restarted: bool = False

    @property
    def partition(self) -> str:
        return page_partition(self.day, self.ref, self.page)

    def __str__(self) -> str:
        return f"{self.partition},{int(self.restarted)}"


def page_partition(day: str, ref: MessageRef, page: int) -> str:
    """Return the partition of a page's emails, in `message` and in `messagearchive`."""
    return f"{day},{ref},{page:06}"


def parse_work_item(body: str) -> WorkItem:
    found = _WORK_ITEM.fullmatch(body)
    if found is None:
        raise Invalid("work item", f"must be 'day,MessageRef,page,flag', not {body[:60]!r}")
    day, ref, page, flag = found.groups()
    day, ref = intern(day), intern(ref)  # senders remember thousands of items of a message
    return WorkItem(day, MessageRef(ref), int(page), flag == "1")
