"""The work on one page: send its emails and record the outcome of each."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from typing import TypeVar

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import DomainError
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.mail.mailing import Recipient
from postroom.observability.metrics import EMAILS
from postroom.observability.spans import note, span
from postroom.sender.faults.faults import Faults
from postroom.sender.faults.lost_history import LostHistory
from postroom.sender.faults.store_outages import StoreOutages
from postroom.sender.journal.journal import Journal, has_journal
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.mailings import Mailings
from postroom.sender.pages.active_pages import ActivePage, Leases, TakenPage
from postroom.sender.pages.allowed_recipients import Recipients
from postroom.sender.pages.claims import Claim, Claims, PageTaken
from postroom.sender.pages.page import LoadedPage, PageStore
from postroom.sender.pages.waiting_emails import is_due, seconds_until_due, waiting
from postroom.sender.policy import Attempt, EmailVerdict, Judge
from postroom.sender.sender_settings import SenderServices, SenderSettings
from postroom.services.entities import EmailRow
from postroom.services.messages.waiting_reasons import WaitingReasons
from postroom.storage import NotFound, StoreOutage
from postroom.transport.contract import Result, ResultKind, Transport

log = logging.getLogger(__name__)
T = TypeVar("T")

LOST_OWNER = "another sender had claimed the page and did not finish it"
LEFT = "no longer a verified subscriber at the time of sending"
CANCELLED = "the message was cancelled"
LIMITED = "waits: the emails per second to its domain are limited"
_BEING_SENT = (MessageStatus.QUEUING, MessageStatus.PROCESSING)

_LABELS = {EmailOutcome.PENDING: "deferred"}
_REFUSED = ResultKind.REFUSED
_outcome = attrgetter("outcome")
_next_try_at = attrgetter("NextTryAt")


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
        stop: Callable[[MessageRef | None], None],
    ) -> None:
        """`sending` is called when the number of emails of a page is known, `stop` when nothing
        more of one message, or of all, should be sent."""
        store = services.store
        self._transport = transport
        self._settings = settings
        self._limits = limits
        self._journal = journal
        self._lost_history = lost_history
        self._sending = sending
        # Pages with emails that may have been handed over and have no record, even after the page
        # was lost: its results are discarded then.
        self._unsettled: set[str] = set()
        self._queue = store.queue(SEND_QUEUE)
        self._messages = services.messages
        self._pages = PageStore(store)
        self._recipients = Recipients(store)
        self._claims = Claims(
            store,
            journal.owner,
            is_neighbour=lambda owner: has_journal(settings.journals, owner),
            has_sent=lambda item: item.partition in self._unsettled,
            steady_for=lambda: self.store_outages.steady_for,
        )
        self.store_outages = StoreOutages()
        self.faults = Faults(services, journal.owner, stop)
        self.leases = Leases(self._queue, self._claims, journal, settings.lease)
        self.mailings = Mailings(self._messages, settings.base_url)
        self.is_stopping = False
        """Whether to start nothing new."""

    async def take_together(self, ref: MessageRef, pages: Sequence[ActivePage]) -> None:
        """Claim and read pages of one message together, if possible."""
        message = await self.mailings.message(ref)
        if self.is_stopping or message is None or message.status not in _BEING_SENT:
            return
        if (await self.faults.holds()).covering_message(ref) is not None:
            return  # they are only held
        items = {active.item: active.message.id for active in pages}
        claims = await self._claims.take_together(items, self._settings.lease)
        if not claims:
            return
        loaded = await self._pages.load_together(claims)
        emails: dict[Address, EmailRow] = {}
        for page in loaded:
            emails.update(page.emails if page is not None else {})
        recipients = await self._recipients.allowed(message.list_name, emails)
        for active, claim, page in zip(pages, claims, loaded, strict=True):
            active.claim = claim
            active.taken = TakenPage(page, recipients)

    async def work_on(self, active: ActivePage) -> float | None:
        """Do what is due for a page. Return in how many seconds there is more to do, or None if the
        work item is no longer needed and has been deleted."""
        item = active.item
        message = await self.mailings.message(item.ref)
        if message is None:
            if active.claim is not None:
                await self._claims.give_up(active.claim)
            await self._queue.delete(active.message)  # the message was deleted
            return None
        if self.is_stopping and active.claim is None:
            return 0.0
        if message.status is MessageStatus.PAUSED:
            # Parked pages wait for the scheduler, so make sure that it is still paused.
            self.mailings.forget_status(item.ref)
            message = await self.mailings.message(item.ref) or message
        if message.status in _BEING_SENT:
            message = await self._ready_to_send(message)
        claim = active.claim
        if claim is None:
            claim = await self._claims.take(item, active.message.id, self._settings.lease)
            active.claim = claim
        if message.status is MessageStatus.PAUSED and not claim.doubtful:
            await self._pages.park(claim)
            await self._queue.delete(active.message)
            return None
        taken = active.taken
        loaded = taken.page if taken is not None else await self._pages.load(claim)
        if loaded is None:
            await self._claims.give_up(claim)
            await self._queue.delete(active.message)
            return None
        if (free_at := await self._lost_history.free_at()) is not None:
            await self._claims.give_up(claim)  # the store may have lost records
            raise PageTaken(free_at)
        with span("page", parent=message.trace, message=item.ref, page=item.page):
            verdicts = await self._verdicts(message, claim, loaded, active)
            note(emails=len(verdicts), reply=_last_reply(verdicts))
        # It may have been paused or cancelled while we were sending.
        current = await self._until_done(lambda: self.mailings.message(item.ref), item)
        status = message.status if current is None else current.status
        if status is MessageStatus.CANCELLED:
            verdicts = self._cancelled(loaded) | _decided(verdicts)
        parked = status is MessageStatus.PAUSED
        now = datetime.now(UTC)
        wait = waiting(item.ref, loaded.emails, verdicts, await self.faults.holds(), now)
        counts = await self._settle(active, claim, loaded, verdicts, wait, parked=parked)
        for outcome, number in Counter(map(_outcome, verdicts.values())).items():
            EMAILS.add(number, _LABELS.get(outcome, outcome.value))
        if not counts.pending or parked:
            return None
        if wait.is_held:
            await self._take_back_if_lifted(item, wait)
            return None
        return seconds_until_due(loaded.emails, verdicts, wait, now)

    async def _settle(
        self,
        active: ActivePage,
        claim: Claim,
        loaded: LoadedPage,
        verdicts: dict[Address, EmailVerdict],
        wait: WaitingReasons,
        *,
        parked: bool,
    ) -> Counts:
        """Record the verdicts. During a store outage they wait: no other process knows them."""
        is_certain = True

        async def record() -> Counts:
            nonlocal is_certain, loaded, verdicts
            was_certain, is_certain = is_certain, False
            if not was_certain:
                # Some of it may have been recorded before the outage.
                loaded = await self._pages.load_again(claim)
                verdicts = {a: v for a, v in verdicts.items() if a in loaded.emails}
            async with active.held:
                current, work = await self.leases.secure(active, claim, is_certain=was_certain)
                counts = await self._pages.settle(
                    current,
                    loaded,
                    verdicts,
                    parked=parked,
                    item=work,
                    patience=self._settings.settle_together,
                    wait=wait,
                )
                active.claim = None
                return counts

        counts = await self._until_done(record, active.item)
        self._unsettled.discard(active.item.partition)
        return counts

    async def _until_done(self, call: Callable[[], Awaitable[T]], item: WorkItem) -> T:
        """Call the store, and wait during an outage: the results are only in this process."""
        what = f"page {item.partition} waits to be recorded"
        return await self.store_outages.until_done(call, what, lambda: self.is_stopping)

    async def _take_back_if_lifted(self, item: WorkItem, wait: WaitingReasons) -> None:
        """Put a work item for a page whose hold was lifted while the page was settled: the
        scheduler, which does that for held pages, may have just missed it."""
        holds = await self.faults.fresh_holds()
        if any(key not in holds for key in wait.held_by):
            with suppress(StoreOutage):  # the scheduler checks every half minute
                await self._queue.put(str(msgspec.structs.replace(item, restarted=True)))

    async def _ready_to_send(self, message: Message) -> Message:
        """Return the message if it can be composed; otherwise pause it."""
        try:
            await self.mailings.mailing(message)
        except (DomainError, NotFound) as exc:
            await self._pause(message, f"its email cannot be composed: {exc}")
            return await self._messages.get(message.ref)
        return message

    async def _verdicts(
        self, message: Message, claim: Claim, loaded: LoadedPage, active: ActivePage
    ) -> dict[Address, EmailVerdict]:
        """Return the verdict on each email of the page that is due."""
        now = datetime.now(UTC)
        if message.status is MessageStatus.CANCELLED:
            return self._cancelled(loaded)
        if claim.doubtful:
            # From a sender whose journal is unavailable: every email without a record is in doubt.
            return self._all_doubted(loaded, now)
        lost = self._lost_history.without_record(claim.item, loaded)
        doubts = self._lost_history.doubts(lost, loaded) if lost else {}
        due = loaded.emails
        if doubts or any(map(_next_try_at, due.values())):
            due = {
                address: email
                for address, email in due.items()
                if is_due(email, message.retry_at, now) and address not in doubts
            }
        if active.taken is not None:
            allowed = active.taken.recipients
        else:
            allowed = await self._recipients.allowed(message.list_name, due) if due else {}
        verdicts = doubts
        recipients = [allowed[address] for address in due if address in allowed]
        if len(recipients) < len(due):
            left = [address for address in due if address not in allowed]
            verdicts |= {address: _suppressed(LEFT, loaded.before(address)) for address in left}
        admission = await self.faults.admit(message.ref, recipients)
        recipients = admission.recipients
        if self._limits is not None:
            recipients, later = await self._limits.admit(recipients)
            for address, at in later.items():  # not an attempt: they only wait
                before = loaded.before(address)
                verdicts[address] = EmailVerdict(EmailOutcome.PENDING, LIMITED, before, at)
        sent = await self._send(message, claim.item, recipients, loaded, active)
        await self.faults.conclude(admission.probes, sent)
        holds = await self.faults.holds()
        judge = self._judge(now)
        for address, result in sent.items():
            if result is None:
                continue
            before = loaded.before(address)
            if result.kind is _REFUSED and holds.holds_refusal(result):
                verdicts[address] = judge.held(result.reply, before)
            else:
                verdicts[address] = judge.verdict(result, before)
        return verdicts

    def _judge(self, now: datetime) -> Judge:
        return Judge(now, self._settings.retry, self._settings.in_doubt)

    def _cancelled(self, loaded: LoadedPage) -> dict[Address, EmailVerdict]:
        return {a: _suppressed(CANCELLED, loaded.before(a)) for a in loaded.emails}

    def _all_doubted(self, loaded: LoadedPage, now: datetime) -> dict[Address, EmailVerdict]:
        judge = self._judge(now)
        return {a: judge.doubted(LOST_OWNER, loaded.before(a)) for a in loaded.emails}

    async def _send(
        self,
        message: Message,
        item: WorkItem,
        recipients: list[Recipient],
        loaded: LoadedPage,
        active: ActivePage,
    ) -> dict[Address, Result | None]:
        """Hand emails to the transport; return the results so far, even if stopped."""
        if self.is_stopping or not recipients:
            return {}
        mailing = await self.mailings.mailing(message)
        if self.faults.has_met(message.ref):
            return {}
        addresses = [each.address for each in recipients]

        def tried(address: Address) -> bool:
            return loaded.before(address).tries > 0

        listener = self.faults.listener(item.ref, item.page, tried)
        watcher = self._journal.sending(item.partition, addresses, listener)
        active.watcher = watcher
        self._unsettled.add(item.partition)
        active.sending = asyncio.create_task(self._transport.send(mailing, recipients, watcher))
        self._sending()
        await asyncio.wait([active.sending])
        if not active.sending.cancelled():
            active.sending.result()
        for position in watcher.unanswered():
            watcher.settled(position, Result(ResultKind.IN_DOUBT, "no reply before the end"))
        results = dict(zip(addresses, watcher.results, strict=True))
        sent = {a for a, result in results.items() if result and result.may_have_arrived}
        self._lost_history.remember(item, sent)
        return results

    async def _pause(self, message: Message, reason: str) -> None:
        """Pause a message that cannot be composed."""
        try:
            await self._messages.pause(message.ref, reason, resumptions=message.resumptions)
            log.error("message %s is paused: %s", message.ref, reason)
        except DomainError as exc:
            log.info("message %s is not paused again: %s", message.ref, exc)
        self.mailings.forget_status(message.ref)


def _last_reply(verdicts: dict[Address, EmailVerdict]) -> str:
    """Return the mail server's last reply, for the trace."""
    return next(reversed(verdicts.values())).reply if verdicts else ""


def _decided(verdicts: dict[Address, EmailVerdict]) -> dict[Address, EmailVerdict]:
    return {a: v for a, v in verdicts.items() if v.outcome is not EmailOutcome.PENDING}


def _suppressed(why: str, before: Attempt) -> EmailVerdict:
    return EmailVerdict(EmailOutcome.SUPPRESSED, why, before)
