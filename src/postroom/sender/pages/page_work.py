"""The work on pages: claim them in groups of one message, send them and record the outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import SEND_QUEUE
from postroom.domain.messages.refs import MessageRef
from postroom.mail.mailing import Recipient
from postroom.observability.logs import about
from postroom.observability.metrics import EMAILS, PAGE_SECONDS
from postroom.observability.spans import note, span
from postroom.sender.faults.faults import Faults
from postroom.sender.faults.lost_history import LostHistory
from postroom.sender.faults.store_outages import StoreOutages
from postroom.sender.journal.journal import Journal, has_journal
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.mailings import BEING_SENT, Mailings
from postroom.sender.pages.active_pages import ActivePage, Leases, partitions
from postroom.sender.pages.allowed_recipients import Recipients
from postroom.sender.pages.claims import Claims, PageLost, PageTaken
from postroom.sender.pages.settler import Settler
from postroom.sender.pages.settling import (
    decided,
    due_emails,
    last_reply,
    seconds_until_due,
    settled,
)
from postroom.sender.policy import Judge
from postroom.sender.sender_settings import SenderServices, SenderSettings
from postroom.services.messages.page_rows import Page
from postroom.storage import LeaseLost, StoreOutage
from postroom.transport.contract import Result, ResultKind, Transport

log = logging.getLogger(__name__)
T = TypeVar("T")

LOST_OWNER = "another sender had claimed the page and did not finish it"
LEFT = "no longer a verified subscriber at the time of sending"
CANCELLED = "the message was cancelled"
LIMITED = "waits: the emails per second to its domain are limited"

_LABELS = {EmailOutcome.PENDING: "deferred"}
_REFUSED = ResultKind.REFUSED


class PageWork:
    """Works on pages; `Sender` decides on which, and on how many at once."""

    def __init__(
        self,
        services: SenderServices,
        transport: Transport,
        settings: SenderSettings,
        limits: DomainLimits | None,
        journal: Journal,
        lost_history: LostHistory,
        sending: Callable[[], None],
        ended: Callable[[ActivePage], None],
        stop: Callable[[MessageRef | None], None],
    ) -> None:
        """`sending` is called when the number of emails of a page is known, `ended` when the work
        on a page ends, `stop` when nothing more of one message, or of all, should be sent."""
        self._transport = transport
        self._settings = settings
        self._limits = limits
        self._journal = journal
        self._lost_history = lost_history
        self._sending = sending
        self._ended = ended
        # Pages with emails that may have been handed over and have no record, even after the page
        # was lost: its results are discarded then.
        self._unsettled: set[str] = set()
        store = services.store
        self._queue = store.queue(SEND_QUEUE)
        self._pages = services.pages
        self._recipients = Recipients(store)
        self.store_outages = StoreOutages()
        self._claims = Claims(
            self._pages,
            journal.owner,
            settings.lease,
            is_neighbour=lambda owner: has_journal(settings.journals, owner),
            has_sent=lambda item: item.partition in self._unsettled,
            steady_for=lambda: self.store_outages.steady_for,
        )
        self._settler = Settler(store, settings.settle_together)
        self._leases = Leases(self._queue, self._claims, journal, settings.lease)
        self.faults = Faults(services, journal.owner, stop)
        self.mailings = Mailings(services.messages, settings.base_url)
        self.is_stopping = False
        """Whether to start nothing new."""

    async def keep_leases(self, pages: Callable[[], Sequence[ActivePage]]) -> None:
        """Renew the leases of pages until cancelled."""
        await self._leases.keep(pages)

    async def work_on(self, group: Sequence[ActivePage]) -> None:
        """Work on pages of one message until each is settled, or left to another sender."""
        try:
            claimed = await self.store_outages.until_done(
                lambda: self._claim([each for each in group if not each.has_ended]),
                f"{partitions(group)}: waiting",
                lambda: self.is_stopping,
            )
        except StoreOutage as exc:
            log.warning("%s: left to the next sender: %s", partitions(group), exc)
            return
        if claimed is not None:
            message, ready, allowed = claimed
            finishing = (self._finish(message, each, allowed) for each in ready)
            for error in await asyncio.gather(*finishing, return_exceptions=True):
                if isinstance(error, Exception):
                    log.error("a page failed and will be taken again", exc_info=error)

    # -- claiming ------------------------------------------------------------------------------

    async def _claim(
        self, group: Sequence[ActivePage]
    ) -> tuple[Message, list[ActivePage], dict[Address, Recipient]] | None:
        """Claim the pages, and read who may still receive their emails. Pages with nothing to do
        end here; return None if no page is left."""
        message = await self.mailings.ready(group[0].item.ref) if group else None
        if message is None:  # it was deleted
            for each in group:
                await self._end(each, finished=True)
            return None
        free_at = await self._lost_history.free_at()
        if self.is_stopping or free_at is not None:
            await self._claims.give_up([each.item for each in group])
            wait = 0.0 if free_at is None else _seconds_until(free_at)
            for each in group:
                await self._end(each, release_for=wait)
            return None
        claimed = await self._claims.take([each.item for each in group])
        # Again, unless it was read just now: a message that was paused before the claim may be
        # edited, and this process may have been suspended meanwhile.
        message = await self.mailings.ready(message.ref) or message
        ready: list[ActivePage] = []
        for each in group:
            page = claimed[each.item]
            if page is None:
                await self._end(each, finished=True)
            elif isinstance(page, PageTaken):
                await self._end(each, release_for=max(1.0, _seconds_until(page.free_at)))
            else:
                each.page = page
                ready.append(each)
        if message.status not in BEING_SENT:
            return message, ready, {}
        due: dict[Address, SubscriberGuid] = {}
        for each in ready:
            if (page := each.page) is not None and not page.claim.doubtful:
                each.due = due_emails(page, message.retry_at, clock.now())
                due |= {address: page.emails.guid(place) for place, address in each.due}
        allowed = await self._recipients.allowed(message.list_name, due) if due else {}
        return message, ready, allowed

    # -- one page ------------------------------------------------------------------------------

    async def _finish(
        self, message: Message, taken: ActivePage, allowed: dict[Address, Recipient]
    ) -> None:
        """Send and settle a page that we have claimed, and end its work item."""
        item = taken.item
        try:
            with about(message=item.ref, page=item.page), PAGE_SECONDS.timed():
                page = await self._send_and_settle(message, taken, allowed)
        except (PageLost, LeaseLost):
            log.warning("page %s was taken over by another sender", item.partition)
            self._lost_history.suspect(item)
            await self._end(taken)
            return
        except StoreOutage as exc:
            # The next sender settles it from the journal.
            log.warning("page %s is left to the next sender: %s", item.partition, exc)
            return
        if page.waiting.is_held:
            await self._take_back_if_lifted(page)
        if not await self._end(taken, release_for=seconds_until_due(page, clock.now())):
            with suppress(StoreOutage):
                await self._put_again(page)

    async def _send_and_settle(
        self, message: Message, taken: ActivePage, allowed: dict[Address, Recipient]
    ) -> Page:
        page = taken.page
        if page is None:
            raise PageLost
        with span("page", parent=message.trace, message=page.ref, page=page.number):
            states = await self._new_states(message, page, taken, allowed)
            note(emails=len(states), reply=last_reply(states))
        # It may have been paused or cancelled while we were sending.
        current = await self._until_done(lambda: self.mailings.message(page.ref), taken)
        status = message.status if current is None else current.status
        if status is MessageStatus.CANCELLED:
            states = self._cancelled(page, states)
        holds = await self.faults.holds()
        parked = status is MessageStatus.PAUSED
        after = settled(page, states, holds, clock.now(), parked=parked)
        await self._settle(taken, after)
        for outcome, number in Counter(state.outcome for state in states.values()).items():
            EMAILS.add(number, _LABELS.get(outcome, outcome.value))
        return after

    async def _new_states(
        self, message: Message, page: Page, taken: ActivePage, allowed: dict[Address, Recipient]
    ) -> dict[int, EmailState]:
        """Send what is due; return the new states of the page's emails, by their places."""
        judge = self._judge()
        if page.claim.doubtful:
            # From a sender whose journal is unavailable: every email without a record is in doubt.
            return {
                place: judge.doubted(LOST_OWNER, page.emails.state(place))
                for place in page.emails.pending()
            }
        if message.status not in BEING_SENT:
            return {}
        states = self._lost_history.doubts(page)
        places: dict[Address, int] = {}
        recipients: list[Recipient] = []
        for place, address in taken.due:
            if place in states:
                continue
            if (recipient := allowed.get(address)) is not None:
                places[address] = place
                recipients.append(recipient)
            else:
                states[place] = judge.suppressed(LEFT, page.emails.state(place))
        admission = await self.faults.admit(message.ref, recipients)
        recipients = admission.recipients
        if self._limits is not None:
            recipients, later = await self._limits.admit(recipients)
            for address, at in later.items():
                place = places[address]
                states[place] = judge.waits(LIMITED, at, page.emails.state(place))
        sent = await self._send(message, page, recipients, taken, places)
        await self.faults.conclude(admission.probes, sent)
        holds = await self.faults.holds()
        judge = self._judge()
        for address, result in sent.items():
            if result is None:
                continue
            place = places[address]
            before = page.emails.state(place)
            if result.kind is _REFUSED and holds.holds_refusal(result):
                states[place] = judge.held(result.reply, before)
            else:
                states[place] = judge.attempted(result, before)
        return states

    async def _send(
        self,
        message: Message,
        page: Page,
        recipients: list[Recipient],
        taken: ActivePage,
        places: dict[Address, int],
    ) -> dict[Address, Result | None]:
        """Hand emails to the transport; return the result of each, even if it was stopped."""
        if self.is_stopping or not recipients:
            return {}
        mailing = await self.mailings.mailing(message)
        if self.faults.has_met(message.ref):
            return {}
        addresses = [each.address for each in recipients]

        def tried(address: Address) -> bool:
            return page.emails.state(places[address]).tries > 0

        partition = taken.item.partition
        listener = self.faults.listener(page.ref, page.number, tried)
        watcher = self._journal.sending(partition, addresses, listener)
        taken.watcher = watcher
        self._unsettled.add(partition)
        taken.sending = asyncio.create_task(self._transport.send(mailing, recipients, watcher))
        self._sending()
        await asyncio.wait([taken.sending])
        if not taken.sending.cancelled():
            taken.sending.result()
        for position in watcher.unanswered():
            watcher.settled(position, Result(ResultKind.IN_DOUBT, "no reply before the end"))
        results = dict(zip(addresses, watcher.results, strict=True))
        sent = {a for a, result in results.items() if result and result.may_have_arrived}
        self._lost_history.remember(taken.item, sent)
        return results

    # -- settling ------------------------------------------------------------------------------

    async def _settle(self, taken: ActivePage, after: Page) -> None:
        """Record a page. During a store outage it waits: no other process knows its results."""
        attempts = 0

        async def record() -> None:
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

        await self._until_done(record, taken)
        self._unsettled.discard(taken.item.partition)

    async def _write(self, taken: ActivePage, after: Page) -> None:
        if taken.is_item_lost:
            # Perhaps deleted by a sender that had nothing to do, because the page was held. Put
            # first: a page that is queued twice only costs an extra look.
            await self._put_again(after)
        await self._settler.settle(after, taken.etag, taken.finished_item(after))

    async def _is_recorded(self, after: Page) -> bool:
        """Return whether a write whose reply was lost has been done."""
        found = await self._pages.get(after.day, after.ref, after.number)
        return found is not None and found.emails.packed() == after.emails.packed()

    async def _until_done(self, call: Callable[[], Awaitable[T]], taken: ActivePage) -> T:
        """Call the store, and wait during an outage: the results are only in this process."""
        what = f"page {taken.item.partition} waits to be recorded"
        return await self.store_outages.until_done(call, what, lambda: self.is_stopping)

    async def _take_back_if_lifted(self, page: Page) -> None:
        """Put a work item for a page whose hold was lifted while the page was settled: the
        scheduler, which does that for held pages, may have just missed it."""
        holds = await self.faults.fresh_holds()
        if any(key not in holds for key in page.waiting.held_by):
            with suppress(StoreOutage):  # the scheduler checks every half minute
                await self._queue.put(str(page.item(restarted=True)))

    async def _put_again(self, page: Page) -> None:
        """Put another work item for a page that is not done."""
        delay = seconds_until_due(page, clock.now())
        if delay is not None:
            await self._queue.put(str(page.item(restarted=True)), delay=delay)

    async def _end(
        self, taken: ActivePage, *, finished: bool = False, release_for: float | None = None
    ) -> bool:
        """Let go of a work item: delete it if it is `finished`, or release it for some seconds.
        Return False if another sender has received it, and may have deleted it."""
        # Before the item is released: we may receive it again at once.
        taken.has_ended = True
        self._journal.page_ended(taken.item.partition)
        self._ended(taken)
        try:
            if finished:
                await self._queue.delete(taken.message)
            elif release_for is not None:
                await self._queue.release(taken.message, delay=release_for, count_attempt=False)
        except LeaseLost:
            return taken.is_item_lost  # then another one was put
        except StoreOutage as exc:
            log.info("page %s: its work item comes back: %s", taken.item.partition, exc)
        return True

    def _judge(self) -> Judge:
        return Judge(clock.now(), self._settings.retry, self._settings.in_doubt)

    def _cancelled(self, page: Page, states: dict[int, EmailState]) -> dict[int, EmailState]:
        """Return the new states with all emails suppressed that are still pending. One that was in
        doubt stays marked."""
        judge = self._judge()
        pending = {place: page.emails.state(place) for place in page.emails.pending()} | states
        return {
            place: judge.suppressed(CANCELLED, state)
            for place, state in pending.items()
            if state.outcome is EmailOutcome.PENDING
        } | decided(states)


def _seconds_until(moment: datetime) -> float:
    return max(0.0, (moment - clock.now()).total_seconds())
