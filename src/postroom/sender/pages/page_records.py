"""Records settled pages, however long the store is out: no other process knows their results."""

from __future__ import annotations

from postroom.sender.pages.active_pages import ActivePage, Leases
from postroom.sender.pages.claims import PageLost
from postroom.sender.pages.settler import Settler
from postroom.sender.pages.work_items import WorkItems
from postroom.sender.sender_parts import SenderParts
from postroom.services.messages.sending.page_rows import Page


class PageRecords:
    def __init__(self, parts: SenderParts, leases: Leases, items: WorkItems) -> None:
        self._pages = parts.services.pages
        self._store_outages = parts.store_outages
        self._settler = Settler(parts.services.store, parts.settings.settle_together)
        self._leases = leases
        self._items = items

    async def record(self, taken: ActivePage, after: Page) -> None:
        """Write a page as it is settled, and end its work item if it needs it no more. Raise
        `PageLost` if another sender has taken it over, `StoreOutage` if the sender stops first."""
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            async with taken.changing:
                must_renew = attempts > 1 or self._leases.is_overdue(taken)
                if must_renew and not await self._leases.renew(taken):
                    if attempts > 1 and await self._is_recorded(after):
                        return
                    raise PageLost
                try:
                    await self._write(taken, after)
                except PageLost:
                    # Its ETag may have changed by our own renewal, whose reply was lost.
                    if not await self._leases.renew(taken):
                        raise
                    await self._write(taken, after)

        await self._store_outages.until_done(attempt, taken.waits_to_be_recorded)

    async def _write(self, taken: ActivePage, after: Page) -> None:
        if taken.is_item_lost:
            # Perhaps deleted by a sender that had nothing to do, because the page was held. Put
            # first: a page that is queued twice only costs an extra look.
            await self._items.put_again(after)
        await self._settler.settle(after, taken.etag, taken.finished_item(after))

    async def _is_recorded(self, after: Page) -> bool:
        """Return whether a write whose reply was lost has been done."""
        found = await self._pages.get(after.day, after.ref, after.number)
        return found is not None and found.emails.packed() == after.emails.packed()
