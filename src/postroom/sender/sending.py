"""The sender: takes work items, a few at a time, and works on several pages at once.

How it stops (SIGTERM): it takes no more items; the transport finishes what is on the wire; each
page in hand is settled with what is known of it; work items of pages that are not finished are
released at once, uncounted, for another sender.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

import msgspec

from postroom.domain.addresses import Address
from postroom.domain.emails import Counts, EmailOutcome
from postroom.domain.errors import DomainError, Invalid
from postroom.domain.messages import Message, MessageStatus
from postroom.domain.pages import SEND_QUEUE, WorkItem, parse_work_item
from postroom.domain.refs import MessageRef
from postroom.logs import about
from postroom.mail.mailing import Recipient
from postroom.metrics import EMAILS, PAGE_SECONDS
from postroom.sender.domain_limits import DomainLimits
from postroom.sender.in_hand import InHand, Leases
from postroom.sender.journal import Journal, has_journal
from postroom.sender.mailings import Mailings
from postroom.sender.one_core import kept_on_one_core
from postroom.sender.pages import Claim, LoadedPage, PageLost, PageStore, PageTaken
from postroom.sender.policy import Attempt, Judge, RetryPlan, Verdict, WhenInDoubt
from postroom.sender.recovery import Recovery
from postroom.services.messages import MessageService
from postroom.spans import note, span
from postroom.storage import LeaseLost, NotFound, QueueMessage, Store, StoreUnavailable
from postroom.transport.contract import Result, ResultKind, Transport

log = logging.getLogger(__name__)

POISON_QUEUE = f"{SEND_QUEUE};poison"
LOST_OWNER = "another sender had the page in hand and did not come back"
LEFT = "no longer a verified subscriber when its turn came"
CANCELLED = "the message was cancelled"
LIMITED = "waits: the emails per second to its domain are limited"

_OBEY_SECONDS = 0.25
_STORE_SECONDS = 1.0  # between two looks for a store that is away
_LABELS = {EmailOutcome.PENDING: "deferred"}
_STOPPED = (MessageStatus.PAUSED, MessageStatus.CANCELLED)
_outcome = attrgetter("outcome")
_BEING_SENT = (MessageStatus.QUEUING, MessageStatus.PROCESSING)


class SenderSettings(msgspec.Struct, frozen=True):
    """How a sender works. Times are in seconds."""

    base_url: str
    journals: Path
    in_doubt: WhenInDoubt = WhenInDoubt.RESEND
    retry: RetryPlan = RetryPlan()
    lease: float = 60.0
    claim: int = 8
    in_hand: int = 16
    settle_together: float = 0.0
    """How long a page that is done waits for others: SQLite records them in one transaction."""
    one_core: bool = False
    """Whether to keep the process on one core: see `one_core.py`."""


class Sender:
    def __init__(
        self,
        store: Store,
        transport: Transport,
        settings: SenderSettings,
        limits: DomainLimits | None = None,
    ) -> None:
        self.owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._settings = settings
        self._transport = transport
        self._limits = limits
        self._queue = store.queue(SEND_QUEUE)
        self._poison = store.queue(POISON_QUEUE)
        self._messages = MessageService(store)
        self._mailings = Mailings(self._messages, settings.base_url)
        self._pages = PageStore(
            store, self.owner, lambda owner: has_journal(settings.journals, owner)
        )
        self._recovery = Recovery(
            store, self._pages, settings.retry, settings.in_doubt, settings.lease
        )
        self._journal = Journal(settings.journals, self.owner)
        self._leases = Leases(self._queue, self._pages, self._journal, settings.lease)
        self._in_hand: dict[asyncio.Task[None], InHand] = {}
        self._pages_in_hand: dict[str, InHand] = {}
        self._stopping = False

    @property
    def is_busy(self) -> bool:
        """Whether it has pages in hand."""
        return bool(self._in_hand)

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: take and send."""
        async with kept_on_one_core() if self._settings.one_core else nullcontext():
            await self._run(stopping)

    async def _run(self, stopping: asyncio.Event) -> None:
        renewing = asyncio.create_task(self._leases.keep(self._in_hand.values))
        recovering = asyncio.create_task(self._recover())
        obeying = asyncio.create_task(self._obey())
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done():
                await self._take(stop)
        finally:
            await self._drain()
            beside = (renewing, recovering, obeying, stop)
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self._journal.close()

    async def _take(self, stop: asyncio.Task[bool]) -> None:
        """Take what there is room for, or wait for room or work."""
        room = self._settings.in_hand - len(self._in_hand)
        if room < min(self._settings.claim, self._settings.in_hand):
            await asyncio.wait([stop, *self._in_hand], return_when=asyncio.FIRST_COMPLETED)
            return
        try:
            items = await self._queue.receive(
                min(room, self._settings.claim), lease=self._settings.lease
            )
            await self._begin(items)
            if not items:
                await self._wait_for_work(stop)
        except StoreUnavailable as exc:
            log.warning("no work for now: %s", exc)
            await asyncio.wait([stop], timeout=1.0)

    async def _wait_for_work(self, stop: asyncio.Task[bool]) -> None:
        arrival = asyncio.create_task(self._queue.wait(5.0))
        try:
            await asyncio.wait([stop, arrival], return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
            await asyncio.gather(arrival, return_exceptions=True)

    async def _begin(self, messages: Sequence[QueueMessage]) -> None:
        taken: dict[MessageRef, list[InHand]] = {}
        for message in messages:
            try:
                item = parse_work_item(message.body)
            except Invalid as exc:
                await self._set_aside(message, exc)
                continue
            if item.partition in self._pages_in_hand:
                await self._meet_again(self._pages_in_hand[item.partition], message)
                continue
            # Before anything else: should we be killed, our successor can give it back at once.
            self._journal.page_taken(item.partition, message.id, message.receipt, message.body)
            in_hand = InHand(message, item)
            self._pages_in_hand[item.partition] = in_hand
            taken.setdefault(item.ref, []).append(in_hand)
        for ref, pages in taken.items():
            taking = asyncio.create_task(self._take_together(ref, pages))
            for in_hand in pages:
                task = asyncio.create_task(self._work(in_hand, taking))
                self._in_hand[task] = in_hand
                task.add_done_callback(self._end)

    async def _meet_again(self, in_hand: InHand, message: QueueMessage) -> None:
        """A work item of a page that we are working on already: one of us is enough.

        The same item again, because its lease ran out while we were busy: its new receipt counts.
        Another item for the page, made after a restart of the scheduler: it can wait.
        """
        if message.id == in_hand.message.id:
            in_hand.message = message
            self._journal.page_renewed(in_hand.item.partition, message.receipt)
            return
        with suppress(LeaseLost):
            await self._queue.release(message, delay=self._settings.lease, count_attempt=False)

    async def _take_together(self, ref: MessageRef, pages: Sequence[InHand]) -> None:
        """Claim and read pages of one message at once. Where that cannot be, each of them is left
        to itself."""
        message = await self._mailings.message(ref)
        if self._stopping or message is None or message.status not in _BEING_SENT:
            return
        items = {in_hand.item: in_hand.message.id for in_hand in pages}
        found = await self._pages.take_together(items, message.list_name, self._settings.lease)
        taken = {each.claim.item: each for each in found}
        for in_hand in pages:
            if in_hand.item in taken:
                in_hand.taken = taken[in_hand.item]
                in_hand.claim = in_hand.taken.claim

    def _end(self, task: asyncio.Task[None]) -> None:
        self._forget(self._in_hand.pop(task))
        if not task.cancelled() and task.exception() is not None:
            log.error("a page failed and will be taken again", exc_info=task.exception())

    def _forget(self, in_hand: InHand) -> None:
        """From now on a work item of this page is a new one."""
        if self._pages_in_hand.get(in_hand.item.partition) is in_hand:
            del self._pages_in_hand[in_hand.item.partition]

    # -- one page ----------------------------------------------------------------------------

    async def _work(self, in_hand: InHand, taking: asyncio.Task[None]) -> None:
        """One work item, from the claim of its page to its deletion or release."""
        item = in_hand.item
        release_for: float | None = None
        try:
            await taking
            with about(message=item.ref, page=item.page), PAGE_SECONDS.timed():
                release_for = await self._work_on(item, in_hand)
        except PageTaken as taken:
            release_for = max(1.0, (taken.free_at - datetime.now(UTC)).total_seconds())
        except (PageLost, LeaseLost):
            log.warning("page %s was taken over by another sender", item.partition)
        except StoreUnavailable as exc:
            # The journal goes on to tell of it.
            log.warning("page %s: %s; it is taken again later", item.partition, exc)
            return
        # Before the item is released: we may be the one who receives it at that very moment.
        self._journal.page_ended(item.partition)
        self._forget(in_hand)
        if release_for is not None:
            try:
                await self._queue.release(in_hand.message, delay=release_for, count_attempt=False)
            except (LeaseLost, StoreUnavailable) as exc:
                log.info("page %s is taken again once its lease is over: %s", item.partition, exc)

    async def _work_on(self, item: WorkItem, in_hand: InHand) -> float | None:
        """Do what is to be done for a page now. Answers in how many seconds there is more to do,
        or None if the work item is no longer needed and has been deleted."""
        message = await self._mailings.message(item.ref)
        if message is None:
            if in_hand.claim is not None:
                await self._pages.give_up(in_hand.claim)
            await self._queue.delete(in_hand.message)  # deleted, or never was
            return None
        if self._stopping and in_hand.claim is None:
            return 0.0
        if message.status is MessageStatus.PAUSED:
            # Parked pages wait for the scheduler: only if it is paused still.
            self._mailings.forget_status(item.ref)
            message = await self._mailings.message(item.ref) or message
        if message.status in _BEING_SENT:
            message = await self._ready_to_send(message)
        claim = in_hand.claim
        if claim is None:
            claim = await self._pages.claim(item, in_hand.message.id, self._settings.lease)
            in_hand.claim = claim
        if message.status is MessageStatus.PAUSED and not claim.doubtful:
            await self._pages.park(claim)
            await self._queue.delete(in_hand.message)
            return None
        taken = in_hand.taken
        loaded = taken.page if taken is not None else await self._pages.load(claim)
        if loaded is None:
            await self._pages.give_up(claim)
            await self._queue.delete(in_hand.message)
            return None
        with span("page", parent=message.trace, message=item.ref, page=item.page):
            verdicts, blamed = await self._verdicts(message, claim, loaded, in_hand)
            note(emails=len(verdicts), reply=_last_reply(verdicts))
        if blamed:
            await self._pause(message, f"the mail server refuses us: {blamed}")
        # It may have been paused or cancelled while we were sending.
        current = await self._mailings.message(item.ref)
        status = message.status if current is None else current.status
        if status is MessageStatus.CANCELLED:
            verdicts = self._cancelled(loaded) | _decided(verdicts)
        parked = status is MessageStatus.PAUSED
        counts = await self._settle(in_hand, claim, loaded, verdicts, parked=parked)
        for outcome, number in Counter(map(_outcome, verdicts.values())).items():
            EMAILS.add(number, _LABELS.get(outcome, outcome.value))
        return _until_next(loaded, verdicts) if counts.pending and not parked else None

    async def _settle(
        self,
        in_hand: InHand,
        claim: Claim,
        loaded: LoadedPage,
        verdicts: dict[Address, Verdict],
        *,
        parked: bool,
    ) -> Counts:
        """Record the verdicts. If the store is away, they wait for it: nobody else knows them."""
        while True:
            try:
                async with in_hand.held:
                    claim, work = await self._leases.secure(in_hand, claim)
                    counts = await self._pages.settle(
                        claim,
                        loaded,
                        verdicts,
                        parked=parked,
                        item=work,
                        patience=self._settings.settle_together,
                    )
                    in_hand.claim = None
                    return counts
            except StoreUnavailable as exc:
                log.warning("page %s waits to be recorded: %s", in_hand.item.partition, exc)
            again = None
            while again is None:
                if self._stopping:
                    raise StoreUnavailable("the store did not come back before we had to stop")
                await asyncio.sleep(_STORE_SECONDS)
                with suppress(StoreUnavailable):
                    again = await self._pages.load_again(claim)
            # Some of it may have been recorded.
            loaded = again
            verdicts = {a: v for a, v in verdicts.items() if a in loaded.emails}

    async def _ready_to_send(self, message: Message) -> Message:
        """The message, whose mail can be made; or paused, because it cannot."""
        try:
            await self._mailings.mailing(message)
        except (DomainError, NotFound) as exc:
            await self._pause(message, f"its mail cannot be made: {exc}")
            return await self._messages.get(message.ref)
        return message

    async def _verdicts(
        self, message: Message, claim: Claim, loaded: LoadedPage, in_hand: InHand
    ) -> tuple[dict[Address, Verdict], str]:
        """What becomes of each email of the page now; and why the sender itself is to blame."""
        now = datetime.now(UTC)
        if message.status is MessageStatus.CANCELLED:
            return self._cancelled(loaded), ""
        if claim.doubtful:
            # From a sender whose journal is not here: whatever it had not recorded is in doubt.
            return self._all_doubted(loaded, now), ""
        due = [
            address
            for address, email in loaded.emails.items()
            if email.NextTryAt is None or email.NextTryAt <= now
        ]
        if in_hand.taken is not None:
            allowed = in_hand.taken.recipients
        else:
            allowed = await self._pages.who_may_receive(message.list_name, due) if due else {}
        verdicts = {
            address: _suppressed(LEFT, loaded.before(address))
            for address in due
            if address not in allowed
        }
        recipients = [allowed[address] for address in due if address in allowed]
        if self._limits is not None:
            recipients, later = await self._limits.admit(recipients)
            for address, at in later.items():  # no attempt: they only wait
                before = loaded.before(address)
                verdicts[address] = Verdict(EmailOutcome.PENDING, LIMITED, before, at)
        if not recipients:
            return verdicts, ""
        judge = self._judge(now)
        blame, blamed = ResultKind.BLAMED, ""
        results = await self._send(message, claim.item, recipients, in_hand)
        for recipient, result in zip(recipients, results, strict=True):
            if result is not None:
                address = recipient.address
                verdicts[address] = judge.verdict(result, loaded.before(address))
                if result.kind is blame:
                    blamed = result.reply
        return verdicts, blamed

    def _judge(self, now: datetime) -> Judge:
        return Judge(now, self._settings.retry, self._settings.in_doubt)

    def _cancelled(self, loaded: LoadedPage) -> dict[Address, Verdict]:
        return {a: _suppressed(CANCELLED, loaded.before(a)) for a in loaded.emails}

    def _all_doubted(self, loaded: LoadedPage, now: datetime) -> dict[Address, Verdict]:
        judge = self._judge(now)
        return {a: judge.doubted(LOST_OWNER, loaded.before(a)) for a in loaded.emails}

    async def _send(
        self, message: Message, item: WorkItem, recipients: list[Recipient], in_hand: InHand
    ) -> list[Result | None]:
        """Hand the page to the transport; answers what is known, also when told to stop."""
        if self._stopping:
            return [None] * len(recipients)
        mailing = await self._mailings.mailing(message)
        watcher = self._journal.sending(item.partition, [each.address for each in recipients])
        in_hand.sending = asyncio.create_task(self._transport.send(mailing, recipients, watcher))
        await asyncio.wait([in_hand.sending])
        if not in_hand.sending.cancelled():
            in_hand.sending.result()
        for position in watcher.unanswered():
            watcher.settled(position, Result(ResultKind.IN_DOUBT, "no answer before the end"))
        return watcher.results

    async def _pause(self, message: Message, reason: str) -> None:
        """The fault is ours, not the recipients': nobody else would fare better."""
        try:
            await self._messages.pause(message.ref, reason, resumptions=message.resumptions)
            log.error("message %s pauses itself: %s", message.ref, reason)
        except DomainError as exc:
            log.info("message %s is not paused again: %s", message.ref, exc)
        self._mailings.forget_status(message.ref)

    async def _set_aside(self, message: QueueMessage, why: Invalid) -> None:
        """What is no work item will never be one."""
        log.error("a queue message is set aside in %s: %s", POISON_QUEUE, why)
        await self._poison.put(message.body, properties={"error": str(why)[:1000]})
        await self._queue.delete(message)

    # -- beside the pages --------------------------------------------------------------------

    async def _obey(self) -> None:
        """Stop sending what was paused or cancelled, also in the middle of a page."""
        while True:
            await asyncio.sleep(_OBEY_SECONDS)
            for in_hand in list(self._in_hand.values()):
                try:
                    message = await self._mailings.message(in_hand.item.ref)
                except StoreUnavailable:
                    continue
                if message is not None and message.status in _STOPPED:
                    in_hand.stop_sending()

    async def _recover(self) -> None:
        """At the start and then every second: dead senders of this machine."""
        while True:
            try:
                await self._recovery.settle_the_dead(self._settings.journals)
            except StoreUnavailable as exc:
                log.warning("the dead must wait: %s", exc)
            except Exception:  # looked at again: they have nobody else on this machine
                log.exception("a dead sender's pages could not be settled")
            await asyncio.sleep(1.0)

    async def _drain(self) -> None:
        """Only what is being sent is stopped; everything else comes to its end."""
        self._stopping = True
        while self._in_hand:
            for in_hand in self._in_hand.values():
                in_hand.stop_sending()
            await asyncio.wait(list(self._in_hand), timeout=0.5)


def _last_reply(verdicts: dict[Address, Verdict]) -> str:
    """Of the mail server: what a trace ends with."""
    return next(reversed(verdicts.values())).reply if verdicts else ""


def _decided(verdicts: dict[Address, Verdict]) -> dict[Address, Verdict]:
    return {a: v for a, v in verdicts.items() if v.outcome is not EmailOutcome.PENDING}


def _suppressed(why: str, before: Attempt) -> Verdict:
    return Verdict(EmailOutcome.SUPPRESSED, why, before)


def _until_next(loaded: LoadedPage, verdicts: dict[Address, Verdict]) -> float:
    """Seconds until the first email of the page is to be tried again."""
    now = datetime.now(UTC)
    times = [verdict.next_try_at for verdict in verdicts.values() if verdict.next_try_at]
    unseen = [email.NextTryAt for a, email in loaded.emails.items() if a not in verdicts]
    times += [at for at in unseen if at is not None]
    if None in unseen or not times:
        return 0.0
    return max(0.0, (min(times) - now).total_seconds())
