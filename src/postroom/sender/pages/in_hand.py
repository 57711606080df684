"""The pages that a sender has in hand, and the leases under which it has them."""

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

# It goes on while the machine sleeps: leases do, too.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


class TakenPage(msgspec.Struct, frozen=True):
    """A page that was read together with others. `recipients` are those of all of them."""

    page: LoadedPage | None
    recipients: Mapping[Address, Recipient]


class InHand(msgspec.Struct):
    """A work item with what belongs to it while it is worked on."""

    message: QueueMessage
    item: WorkItem
    held_since: float = msgspec.field(default_factory=_now)
    held: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Taken by whoever needs claim and receipt to stay as they are, or changes them."""
    claim: Claim | None = None
    was_interrupted: bool = False
    """Whether an outage of the store interrupted the work on it."""
    lost_item: bool = False
    """Whether another sender has received the work item. The claim decides whose the page is."""
    taken: TakenPage | None = None
    sending: asyncio.Task[list[Result]] | None = None
    watcher: JournalledSending | None = None

    @property
    def unsent(self) -> int:
        """How many emails have no result yet; before that is known, as many as there may be."""
        return PAGE_SIZE if self.watcher is None else self.watcher.results.count(None)

    @property
    def sent(self) -> int:
        """How many have one."""
        return 0 if self.watcher is None else len(self.watcher.results) - self.unsent

    @property
    def is_sending(self) -> bool:
        """Whether emails of it may be on the wire."""
        return self.sending is not None and not self.sending.done()

    def stop_sending(self) -> None:
        """What is on the wire comes to its end; the rest is not sent."""
        if self.sending is not None:
            self.sending.cancel()


class Leases:
    """Renews the work items and claims of pages that are in hand."""

    def __init__(self, queue: Queue, claims: Claims, journal: Journal, seconds: float) -> None:
        self._queue = queue
        self._claims = claims
        self._journal = journal
        self._seconds = seconds

    async def keep(self, pages: Callable[[], Collection[InHand]]) -> None:
        """For ever: renew what takes longer than a third of its lease."""
        while True:
            await asyncio.sleep(self._seconds / 3)
            for in_hand in list(pages()):
                if in_hand.held.locked():
                    continue  # it is being settled
                try:
                    async with in_hand.held:
                        # Before, nothing takes long; and who parks a page needs its claim as it is.
                        if in_hand.sending is not None and in_hand.claim is not None:
                            await self._renew(in_hand, in_hand.claim)
                except PageLost:
                    log.warning("page %s was lost to another sender", in_hand.item.partition)
                    in_hand.stop_sending()
                except StoreOutage as exc:
                    log.warning("leases could not be renewed: %s", exc)
                except Exception:  # the others are to be renewed all the same
                    log.exception("page %s could not be renewed", in_hand.item.partition)

    async def reclaim(self, in_hand: InHand) -> None:
        """After an outage, before anything is sent: make sure that the page is still ours. If it is
        not, or nobody knows, it is left without a claim."""
        async with in_hand.held:
            if in_hand.claim is not None:
                try:
                    await self._renew(in_hand, in_hand.claim)
                except PageLost:
                    in_hand.claim = None

    async def secure(
        self, in_hand: InHand, claim: Claim, *, is_certain: bool = True
    ) -> tuple[Claim, QueueMessage | None]:
        """Return the claim and the work item with time enough to settle; for whoever has taken
        `held`. Without a work item if another sender has received it. `is_certain`: there was no
        outage since the claim was renewed. `PageLost`.

        Who was suspended may have lost the page long ago, and must not record anything for it:
        another sender counts on finding its own records only.
        """
        claim = in_hand.claim or claim
        if not is_certain or _now() - in_hand.held_since > self._seconds / 2:
            claim = await self._renew(in_hand, claim)
        return claim, None if in_hand.lost_item else in_hand.message

    async def _renew(self, in_hand: InHand, claim: Claim) -> Claim:
        """Renew the claim, which decides whose the page is, and the work item.

        After an outage another sender may have received the work item, whose lease has run out. It
        leaves the page to us (`Claims.take`), and finds it done later.
        """
        asked_at = _now()
        in_hand.lost_item = False
        try:
            in_hand.message = await self._queue.renew(in_hand.message, lease=self._seconds)
        except LeaseLost:
            in_hand.lost_item = True
        else:
            self._journal.page_renewed(in_hand.item.partition, in_hand.message.receipt)
        in_hand.claim = await self._claims.renew(claim, in_hand.message.id, self._seconds)
        in_hand.held_since = asked_at
        return in_hand.claim
