"""Settles the pages of a dead sender on this machine, from its journal.

Its work items are still leased; the journal has their receipts, so its pages continue at once
instead of when the lease expires. An email that was handed over without a reply is in doubt: at
most one per connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem, parse_work_item
from postroom.sender.journal.journal import DeadJournal, JournalledPage, dead_journals
from postroom.sender.pages.claims import Claims, PageLost
from postroom.sender.pages.page import LoadedPage, PageStore
from postroom.sender.policy import EmailVerdict, Judge, RetryPlan, WhenInDoubt
from postroom.sender.sender_settings import SenderServices
from postroom.services.messages.holds import Holds
from postroom.storage import LeaseLost, QueueMessage

log = logging.getLogger(__name__)

UNANSWERED = "handed over; the sender was killed before the reply came"


class Recovery:
    def __init__(
        self,
        services: SenderServices,
        owner: str,
        plan: RetryPlan,
        in_doubt: WhenInDoubt,
        lease: float,
        remember: Callable[[WorkItem, set[Address]], None] = lambda _item, _addresses: None,
    ) -> None:
        """`remember` is called with the emails of a page that were handed over: the store may have
        lost its records of them, or may lose those that are written now."""
        store = services.store
        self._queue = store.queue(SEND_QUEUE)
        self._claims = Claims(store, owner)
        self._pages = PageStore(store)
        self._holds = services.holds
        self._plan = plan
        self._in_doubt = in_doubt
        self._lease = lease
        self._remember = remember

    async def settle_dead_senders(self, folder: Path) -> int:
        """Settle the pages of all dead senders on this machine; return how many there were."""
        settled = 0
        for journal in dead_journals(folder):
            try:
                pages = journal.open_pages()
                for partition, page in pages.items():
                    await self._settle(journal, partition, page)
                settled += len(pages)
            except BaseException:
                journal.leave()
                raise
            journal.remove()
        return settled

    async def _settle(self, journal: DeadJournal, partition: str, page: JournalledPage) -> None:
        try:
            item = parse_work_item(page.item_body)
        except Invalid:
            return
        self._remember(item, page.may_have_arrived)
        found = await self._claims.find(item)
        if found is None:
            await self._hand_back(page, done=False)  # killed before the claim, or after settling
            return
        if found.owner != journal.owner:
            return  # another sender has it by now
        try:
            claim = await self._claims.take_over(
                item,
                page.item_id,
                self._lease,
                found.etag,
                owner=journal.owner,
                doubtful=found.doubtful,
            )
            loaded = await self._pages.load(claim)
            if loaded is None:
                return
            holds = await self._holds.open_holds()
            verdicts = self._verdicts(page, loaded, holds, doubtful=found.doubtful)
            counts = await self._pages.settle(claim, loaded, verdicts, parked=False)
        except PageLost:
            return
        log.info(
            "page %s of a sender that was killed: %d emails settled, %d of them in doubt",
            partition,
            len(verdicts),
            len(page.handed_over - page.results.keys()),
        )
        await self._hand_back(page, done=counts.pending == 0)

    def _verdicts(
        self, page: JournalledPage, loaded: LoadedPage, holds: Holds, *, doubtful: bool
    ) -> dict[Address, EmailVerdict]:
        """Return the verdicts. A doubtful page was taken over from a sender whose journal is
        unavailable, so all of its emails are in doubt."""
        judge = Judge(datetime.now(UTC), self._plan, self._in_doubt)
        verdicts: dict[Address, EmailVerdict] = {}
        for address in loaded.emails if doubtful else page.handed_over & loaded.emails.keys():
            before = loaded.before(address)
            result = page.results.get(address)
            if result is None:
                verdicts[address] = judge.doubted(UNANSWERED, before)
            elif holds.holds_refusal(result):
                verdicts[address] = judge.held(result.reply, before)
            else:
                verdicts[address] = judge.verdict(result, before)
        return verdicts

    async def _hand_back(self, page: JournalledPage, *, done: bool) -> None:
        """End the dead sender's lease with its receipt."""
        message = QueueMessage(
            page.item_id, SEND_QUEUE, page.item_body, {}, 0, datetime.now(UTC), page.receipt
        )
        try:
            if done:
                await self._queue.delete(message)
            else:
                await self._queue.release(message, count_attempt=False)
        except LeaseLost:
            return  # it expired meanwhile, and another sender has the item
