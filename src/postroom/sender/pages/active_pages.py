"""The pages that a sender works on, and the leases under which it has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.messages.pages import PAGE_SIZE, WorkItem
from postroom.sender.journal.journal import Journal, JournalledSending
from postroom.sender.pages.claims import Claims
from postroom.sender.pages.settling import seconds_until_due
from postroom.services.messages.sending.page_rows import Page
from postroom.storage import LeaseLost, Queue, QueueMessage, StoreOutage
from postroom.transport.contract import Result

log = logging.getLogger(__name__)


class ActivePage(msgspec.Struct):
    """A work item with its page and state while it is being processed."""

    message: QueueMessage
    item: WorkItem
    page: Page | None = None
    """As it was claimed; its ETag is that of the last renewal. None before."""
    due: Sequence[tuple[int, Address]] = ()
    """The emails that are due, with their places: those whose subscribers were read again."""
    renewed_at: float = msgspec.field(default_factory=clock.since_boot)
    changing: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while the claim and the work item are renewed or ended."""
    is_item_lost: bool = False
    """Whether another sender has received the work item. The claim decides whose the page is."""
    has_ended: bool = False
    sending: asyncio.Task[list[Result]] | None = None
    watcher: JournalledSending | None = None

    @property
    def etag(self) -> str:
        return "" if self.page is None else self.page.etag

    @property
    def unsent(self) -> int:
        """How many emails have no result yet; before that is known, as many as there may be."""
        return PAGE_SIZE if self.watcher is None else self.watcher.results.count(None)

    @property
    def sent(self) -> int:
        """How many emails have a result."""
        return 0 if self.watcher is None else len(self.watcher.results) - self.unsent

    @property
    def is_sending(self) -> bool:
        """Whether emails of it may be in progress."""
        return self.sending is not None and not self.sending.done()

    def finished_item(self, after: Page) -> QueueMessage | None:
        """Return the work item if the page, as it is settled now, needs it no more."""
        if self.is_item_lost or seconds_until_due(after, clock.now()) is not None:
            return None
        return self.message

    def waits_to_be_recorded(self) -> str:
        """Say so, for the log."""
        return f"page {self.item.partition} waits to be recorded"

    def stop_sending(self) -> None:
        """Send no more of it; emails in progress finish."""
        if self.sending is not None:
            self.sending.cancel()


class Leases:
    """Renews the work items and claims of pages."""

    def __init__(self, queue: Queue, claims: Claims, journal: Journal, seconds: float) -> None:
        self._queue = queue
        self._claims = claims
        self._journal = journal
        self._seconds = seconds

    async def keep(self, pages: Callable[[], Collection[ActivePage]]) -> None:
        """Renew, until cancelled, what takes longer than a third of its lease."""
        while True:
            await asyncio.sleep(self._seconds / 3)
            for taken in list(pages()):
                if taken.sending is None or taken.changing.locked() or taken.has_ended:
                    continue  # before, nothing takes long; or it is being settled
                try:
                    async with taken.changing:
                        if not await self.renew(taken):
                            log.warning("page %s was lost to another sender", taken.item.partition)
                            taken.stop_sending()
                except StoreOutage as exc:
                    log.warning("leases could not be renewed: %s", exc)
                except Exception:  # the others must be renewed all the same
                    log.exception("page %s could not be renewed", taken.item.partition)

    def is_overdue(self, taken: ActivePage) -> bool:
        """Return whether a page should be renewed before it is settled. A sender that was suspended
        may have lost it long ago."""
        return clock.since_boot() - taken.renewed_at > self._seconds / 2

    async def renew(self, taken: ActivePage) -> bool:
        """Renew the claim, which decides whose the page is, and the work item. Return whether the
        page is still ours.

        After an outage another sender may have received the work item, whose lease has run out. It
        leaves the page to us (`Claims.take`), and finds it done later.
        """
        if taken.page is None:
            return False
        asked_at = clock.since_boot()
        taken.is_item_lost = False
        try:
            taken.message = await self._queue.renew(taken.message, lease=self._seconds)
        except LeaseLost:
            taken.is_item_lost = True
        else:
            if taken.has_ended:  # while we renewed it
                return True
            self._journal.page_renewed(taken.item.partition, taken.message.receipt)
        renewed = (await self._claims.renew([taken.page])).get(taken.page.number)
        if renewed is None:
            return False
        taken.page = msgspec.structs.replace(taken.page, claim=renewed.claim, etag=renewed.etag)
        taken.renewed_at = asked_at
        return True


def partitions(pages: Sequence[ActivePage]) -> str:
    """Return the names of pages, for the log."""
    return ", ".join(each.item.partition for each in pages)
