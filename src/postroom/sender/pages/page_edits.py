"""Changes pages outside of sending: for an administrator's decision, or to correct a record.

A change is one write under the page's ETag, made only while no sender has claimed the page. So it
needs no claim, and cannot be left incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import msgspec

from postroom import clock
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.sender.pages.claims import PageTaken
from postroom.sender.pages.settling import settled
from postroom.services.messages.sending.holds import Holds
from postroom.services.messages.sending.page_rows import FREE, Page, PageRows, page_entity
from postroom.storage import Conflict, Store

Change: TypeAlias = Callable[[Page], Mapping[int, EmailState]]
"""Returns the new states of a page's emails, by their places."""

_SENDERS_FORGET_SECONDS = 1.0  # senders remember a message for half a second


class PageEdits:
    def __init__(self, store: Store, pages: PageRows) -> None:
        self._pages = pages
        self._queue = store.queue(SEND_QUEUE)

    async def change(
        self, item: WorkItem, change: Change, owners: Collection[str] = ()
    ) -> Page | None:
        """Give emails of a page new states; return the page, or None if there is no such page.
        `PageTaken` if it is claimed by a sender that is not one of `owners`.

        A work item is put first, so that a sender takes the page even if this is interrupted.
        """
        page = await self._pages.get(item.day, item.ref, item.page)
        if page is None:
            return None
        if page.claim != FREE and page.claim.owner not in owners:
            raise PageTaken(page.claim.until)
        states = change(page)
        if not states and page.claim == FREE:
            return page
        now = clock.now()
        after = settled(page, states, Holds(), now, parked=page.parked)
        again = msgspec.structs.replace(item, restarted=True)
        await self._queue.put(str(again), delay=_SENDERS_FORGET_SECONDS)
        try:
            await self._pages.table.replace(page_entity(after), page.etag)
        except Conflict as exc:
            raise PageTaken(now) from exc
        return after
