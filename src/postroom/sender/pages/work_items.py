"""The work items of pages: how they end, come back later, or are put again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from postroom import clock
from postroom.domain.messages.pages import SEND_QUEUE
from postroom.sender.pages.active_pages import ActivePage
from postroom.sender.pages.settling import seconds_until_due
from postroom.sender.sender_parts import SenderParts
from postroom.services.messages.sending.page_rows import Page
from postroom.storage import LeaseLost, StoreOutage

log = logging.getLogger(__name__)


class WorkItems:
    def __init__(self, parts: SenderParts, ended: Callable[[ActivePage], None]) -> None:
        """`ended` is called when the work on a page ends."""
        self._queue = parts.services.store.queue(SEND_QUEUE)
        self._journal = parts.journal
        self._faults = parts.faults
        self._ended = ended

    async def end(
        self, taken: ActivePage, *, finished: bool = False, release_for: float | None = None
    ) -> bool:
        """End a work item: delete it if it is `finished`, or release it for some seconds. Return
        False if another sender has received it, and may have deleted it."""
        # Before the item is released: we may receive it again immediately.
        taken.has_ended = True
        self._journal.page_ended(taken.item.partition)
        self._ended(taken)
        try:
            if finished:
                await self._queue.delete(taken.message)
            elif release_for is not None:
                await self._queue.release(taken.message, delay=release_for, count_attempt=False)
        except LeaseLost:
            return taken.is_item_lost  # another one was put then
        except StoreOutage as exc:
            log.info("page %s: its work item comes back: %s", taken.item.partition, exc)
        return True

    async def put_again(self, page: Page) -> None:
        """Put another work item for a page that is not done."""
        delay = seconds_until_due(page, clock.now())
        if delay is not None:
            await self._queue.put(str(page.item(restarted=True)), delay=delay)

    async def put_if_lifted(self, page: Page) -> None:
        """Put a work item for a page whose hold was lifted while the page was settled: the
        scheduler, which does that for held pages, may have just missed it."""
        holds = await self._faults.fresh_holds()
        if any(key not in holds for key in page.waiting.held_by):
            with suppress(StoreOutage):  # the scheduler checks every half minute
                await self._queue.put(str(page.item(restarted=True)))
