"""The pages that a sender is working on, and their leases."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.pages import PAGE_SIZE, WorkItem
from postroom.mail.mailing import Recipient
from postroom.sender.journal.journal import Journal, JournalledSending
from postroom.sender.pages.claims import Claim, Claims, PageLost
from postroom.sender.pages.page import LoadedPage
from postroom.storage import LeaseLost, Queue, QueueMessage, StoreOutage
from postroom.transport.contract import Result

log = logging.getLogger(__name__)

# This clock runs while the machine sleeps, as leases do.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


class TakenPage(msgspec.Struct, frozen=True):
    """A page that was read together with others. `recipients` has those of all of them."""

    page: LoadedPage | None
    recipients: Mapping[Address, Recipient]


class ActivePage(msgspec.Struct):
    """A work item that is being processed."""

    message: QueueMessage
    item: WorkItem
    held_since: float = msgspec.field(default_factory=_now)
    held: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held by code that changes the claim and receipt, or needs them unchanged."""
    claim: Claim | None = None
    was_interrupted: bool = False
    """Whether a store outage interrupted the work."""
    lost_item: bool = False
    """Whether another sender has received the work item. The claim decides who owns the page."""
    taken: TakenPage | None = None
    sending: asyncio.Task[list[Result]] | None = None
    watcher: JournalledSending | None = None

    @property
    def unsent(self) -> int:
        """How many emails have no result yet; the maximum while that is unknown."""
        return PAGE_SIZE if self.watcher is None else self.watcher.results.count(None)

    @property
    def sent(self) -> int:
        """How many emails have a result."""
        return 0 if self.watcher is None else len(self.watcher.results) - self.unsent

    @property
    def is_sending(self) -> bool:
        """Whether emails may be in progress."""
        return self.sending is not None and not self.sending.done()

    def stop_sending(self) -> None:
        """Let emails in progress finish and send no more."""
        if self.sending is not None:
            self.sending.cancel()


class Leases:
    """Renews the work items and claims of active pages."""

    def __init__(self, queue: Queue, claims: Claims, journal: Journal, seconds: float) -> None:
        self._queue = queue
        self._claims = claims
        self._journal = journal
        self._seconds = seconds

    async def keep(self, pages: Callable[[], Collection[ActivePage]]) -> None:
        """Renew, forever, what takes longer than a third of its lease."""
        while True:
            await asyncio.sleep(self._seconds / 3)
            for active in list(pages()):
                if active.held.locked():
                    continue  # it is being settled
                try:
                    async with active.held:
                        # Before sending nothing takes long, and parking needs the claim unchanged.
                        if active.sending is not None and active.claim is not None:
                            await self._renew(active, active.claim)
                except PageLost:
                    log.warning("page %s was taken over by another sender", active.item.partition)
                    active.stop_sending()
                except StoreOutage as exc:
                    log.warning("leases could not be renewed: %s", exc)
                except Exception:  # the others must still be renewed
                    log.exception("page %s could not be renewed", active.item.partition)

    async def reclaim(self, active: ActivePage) -> None:
        """Make sure after an outage, before anything is sent, that the page is still ours; drop the
        claim if it is not."""
        async with active.held:
            if active.claim is not None:
                try:
                    await self._renew(active, active.claim)
                except PageLost:
                    active.claim = None

    async def secure(
        self, active: ActivePage, claim: Claim, *, is_certain: bool = True
    ) -> tuple[Claim, QueueMessage | None]:
        """Return the claim and the work item with enough time left to settle; raise `PageLost`. The
        caller holds `held`. There is no work item if another sender has received it. `is_certain`:
        no outage since the claim was renewed.

        A process that was suspended may have lost the page long ago, and must not record anything:
        the new owner relies on finding only its own records.
        """
        claim = active.claim or claim
        if not is_certain or _now() - active.held_since > self._seconds / 2:
            claim = await self._renew(active, claim)
        return claim, None if active.lost_item else active.message

    async def _renew(self, active: ActivePage, claim: Claim) -> Claim:
        """Renew the claim, which decides who owns the page, and the work item.

        After an outage another sender may have received the work item, whose lease has run out. It
        leaves the page to us (`Claims.take`) and finds it finished later.
        """
        asked_at = _now()
        active.lost_item = False
        try:
            active.message = await self._queue.renew(active.message, lease=self._seconds)
        except LeaseLost:
            active.lost_item = True
        else:
            self._journal.page_renewed(active.item.partition, active.message.receipt)
        active.claim = await self._claims.renew(claim, active.message.id, self._seconds)
        active.held_since = asked_at
        return active.claim
