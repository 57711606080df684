"""The work on pages: claim them in groups of one message, send them and record the outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter

from postroom import clock
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.pages import SEND_QUEUE
from postroom.domain.messages.tracking import Track
from postroom.observability.logs import about
from postroom.observability.metrics import EMAILS, PAGE_SECONDS
from postroom.observability.spans import note, span
from postroom.sender.journal.journal import has_journal
from postroom.sender.pages.active_pages import ActivePage, Leases, partitions
from postroom.sender.pages.claims import Claims, PageLost
from postroom.sender.pages.group_claims import ClaimedGroup, GroupClaims
from postroom.sender.pages.page_sending import PageSending
from postroom.sender.pages.settler import Settler
from postroom.sender.pages.settling import (
    cancelled,
    last_reply,
    seconds_until_due,
    settled,
    with_agreed,
)
from postroom.sender.pages.work_items import WorkItems
from postroom.sender.sender_parts import SenderParts
from postroom.services.messages.sending.page_rows import Page
from postroom.storage import LeaseLost, StoreOutage

log = logging.getLogger(__name__)

_outcome = attrgetter("outcome")
_LABELS = {EmailOutcome.PENDING: "deferred"}


class PageWork:
    """Works on pages; `Sender` decides on which, and on how many at once."""

    def __init__(
        self,
        parts: SenderParts,
        progressed: Callable[[], None],
        ended: Callable[[ActivePage], None],
    ) -> None:
        """`progressed`: see `PageSending`. `ended` is called when the work on a page ends."""
        settings, journal, outages = parts.settings, parts.journal, parts.store_outages
        self._lost_history = parts.lost_history
        self._store_outages = outages
        self._faults = parts.faults
        self._mailings = parts.mailings
        self._items = WorkItems(parts, ended)
        self._sending = PageSending(parts, progressed)
        claims = Claims(
            parts.services.pages,
            journal.owner,
            settings.lease,
            is_neighbour=lambda owner: has_journal(settings.journals, owner),
            has_sent=self._sending.has_sent,
            steady_for=lambda: outages.steady_for,
        )
        self.leases = Leases(
            parts.services.store.queue(SEND_QUEUE), claims, journal, settings.lease
        )
        self._claims = GroupClaims(parts, claims, self._items)
        self._records = PageRecords(parts, self.leases, self._items)
        self._turns = asyncio.Lock()

    async def work_on(self, group: Sequence[ActivePage]) -> None:
        """Work on pages of one message until each is settled, or left to another sender."""
        try:
            claimed = await self._store_outages.until_done(
                lambda: self._claims.claim([each for each in group if not each.has_ended]),
                lambda: f"{partitions(group)}: waiting",
            )
        except StoreOutage as exc:
            log.warning("%s: left to the next sender: %s", partitions(group), exc)
            return
        if claimed is not None:
            finishing = (self._finish(claimed, each) for each in claimed.pages)
            for error in await asyncio.gather(*finishing, return_exceptions=True):
                if isinstance(error, Exception):
                    log.error("a page failed and will be retried", exc_info=error)

    async def _finish(self, claimed: ClaimedGroup, taken: ActivePage) -> None:
        """Send and settle a page that we have claimed, and end its work item."""
        item = taken.item
        await self._turn()
        try:
            with about(message=item.ref, page=item.page), PAGE_SECONDS.timed():
                page = await self._send_and_settle(claimed, taken)
        except (PageLost, LeaseLost):
            log.warning("page %s was taken over by another sender", item.partition)
            self._lost_history.suspect(item)
            await self._items.end(taken)
            return
        except StoreOutage as exc:
            # The next sender settles it from the journal.
            log.warning("page %s is left to the next sender: %s", item.partition, exc)
            return
        if page.waiting.is_held:
            await self._items.put_if_lifted(page)
        if not await self._items.end(taken, release_for=seconds_until_due(page, clock.now())):
            with suppress(StoreOutage):
                await self._items.put_again(page)

    async def _turn(self) -> None:
        """Let one page begin in each round of the event loop. A whole group would keep the loop
        from the replies of the mail server, which would run out of emails."""
        async with self._turns:
            await asyncio.sleep(0)

    async def _send_and_settle(self, claimed: ClaimedGroup, taken: ActivePage) -> Page:
        message, page = claimed.message, taken.page
        if page is None:
            raise PageLost
        with span("page", parent=message.trace, message=page.ref, page=page.number):
            states = await self._sending.new_states(message, page, taken, claimed.allowed)
            note(emails=len(states), reply=last_reply(states))
        status = await self._status_now(message, taken)
        if status is MessageStatus.CANCELLED:
            states = cancelled(page, states, clock.now())
        holds = await self._faults.holds()
        parked = status is MessageStatus.PAUSED
        after = settled(page, states, holds, clock.now(), parked=parked)
        if message.track is Track.PERSONAL:
            after = with_agreed(after, page, claimed.allowed, states)
        await self._records.record(taken, after)
        self._sending.settled(taken.item)
        for outcome, number in Counter(map(_outcome, states.values())).items():
            EMAILS.add(number, _LABELS.get(outcome, outcome.value))
        return after

    async def _status_now(self, message: Message, taken: ActivePage) -> MessageStatus:
        """Return the status of a message that may have been paused or cancelled while we were
        sending."""
        current = await self._store_outages.until_done(
            lambda: self._mailings.message(message.ref), taken.waits_to_be_recorded
        )
        return message.status if current is None else current.status


class PageRecords:
    """Records settled pages, however long the store is out: only this process knows the results."""

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
