"""Settles the pages of a dead sender on this machine, from its journal.

Its work items are still leased; the journal has their receipts, so its pages continue immediately
instead of when the lease expires. An email that was handed over without a reply is in doubt: at
most one per connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem, parse_work_item
from postroom.sender.journal.journal import DeadJournal, JournalledPage, dead_journals
from postroom.sender.pages.settling import settled
from postroom.sender.policy import Judge, RetryPlan, WhenInDoubt
from postroom.sender.sender_settings import SenderServices
from postroom.services.messages.sending.holds import Holds
from postroom.services.messages.sending.page_rows import FREE, Page, page_entity
from postroom.storage import Conflict, LeaseLost, QueueMessage

log = logging.getLogger(__name__)

UNANSWERED = "handed over; the sender was killed before the reply came"


class Recovery:
    def __init__(
        self,
        services: SenderServices,
        plan: RetryPlan,
        in_doubt: WhenInDoubt,
        remember: Callable[[WorkItem, set[Address]], None] = lambda _item, _addresses: None,
        suspect: Callable[[WorkItem], None] = lambda _item: None,
    ) -> None:
        """`remember` is called with the emails of a page that were handed over: the store may have
        lost its records of them, or may lose those that are written now. `suspect` is called with
        a page that the dead sender no longer owns: the store may have lost its claim."""
        self._queue = services.store.queue(SEND_QUEUE)
        self._pages = services.pages
        self._holds = services.holds
        self._plan = plan
        self._in_doubt = in_doubt
        self._remember = remember
        self._suspect = suspect

    async def settle_dead_senders(self, folder: Path) -> int:
        """Settle the pages of every dead sender of this machine; return how many there were."""
        count = 0
        for journal in dead_journals(folder):
            try:
                pages = journal.open_pages()
                for page in pages.values():
                    await self._settle(journal, page)
                count += len(pages)
            except BaseException:
                journal.leave()
                raise
            journal.remove()
        return count

    async def _settle(self, journal: DeadJournal, journalled: JournalledPage) -> None:
        try:
            item = parse_work_item(journalled.item_body)
        except Invalid:
            return
        self._remember(item, journalled.may_have_arrived)
        page = await self._pages.get(item.day, item.ref, item.page)
        if page is None or page.claim.owner != journal.owner:
            self._suspect(item)
        if page is None or page.claim == FREE:
            # Killed before it had begun, or at the end.
            await self._hand_back(journalled, is_done=page is not None and not page.counts.pending)
            return
        if page.claim.owner != journal.owner:
            return  # another sender works on it by now
        states = self._states(journalled, page, await self._holds.open_holds())
        after = settled(page, states, Holds(), clock.now(), parked=page.parked)
        try:
            await self._pages.table.replace(page_entity(after), page.etag)
        except Conflict:
            return  # another sender has just taken it over
        log.info(
            "page %s of a sender that was killed: %d emails settled, %d of them in doubt",
            item.partition,
            len(states),
            len(journalled.handed_over - journalled.results.keys()),
        )
        await self._hand_back(journalled, is_done=not after.counts.pending)

    def _states(
        self, journalled: JournalledPage, page: Page, holds: Holds
    ) -> dict[int, EmailState]:
        """Return the new states of the page's emails, by their places.

        If the dead sender had taken the page over from one whose journal is unavailable, every
        email without a record is in doubt.
        """
        judge = Judge(clock.now(), self._plan, self._in_doubt)
        states: dict[int, EmailState] = {}
        for place in page.emails.pending():
            address, before = page.emails.addresses[place], page.emails.state(place)
            if address not in journalled.handed_over and not page.claim.doubtful:
                continue
            result = journalled.results.get(address)
            if result is None:
                states[place] = judge.unanswered(UNANSWERED, before)
            elif holds.holds_refusal(result):
                states[place] = judge.held(result.reply, before)
            else:
                states[place] = judge.attempted(result, before)
        return states

    async def _hand_back(self, page: JournalledPage, *, is_done: bool) -> None:
        """End the dead sender's lease with its own receipt."""
        message = QueueMessage(
            page.item_id, SEND_QUEUE, page.item_body, {}, 0, clock.now(), page.receipt
        )
        try:
            if is_done:
                await self._queue.delete(message)
            else:
                await self._queue.release(message, count_attempt=False)
        except LeaseLost:
            return  # it expired in the meantime, and another sender has the item
