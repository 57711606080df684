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
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime

from postroom.cancellation import end_tasks
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.pages import SEND_QUEUE, parse_work_item
from postroom.domain.messages.refs import MessageRef
from postroom.observability.logs import about
from postroom.observability.metrics import PAGE_SECONDS
from postroom.sender.faults.lost_history import LostHistory
from postroom.sender.faults.restoring import Restoring
from postroom.sender.journal.journal import Journal
from postroom.sender.journal.recovery import Recovery
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.pages.claims import PageLost, PageTaken
from postroom.sender.pages.in_hand import InHand
from postroom.sender.pages.page_work import PageWork
from postroom.sender.pages.window import Window
from postroom.sender.settings import SenderServices, SenderSettings
from postroom.services.operations.store_history import StoreHistory
from postroom.storage import LeaseLost, QueueMessage, StoreOutage
from postroom.transport.contract import Transport
from postroom.tuning import kept_on_one_core
from postroom.watchdog import Doing

log = logging.getLogger(__name__)

POISON_QUEUE = f"{SEND_QUEUE};poison"

_OBEY_SECONDS = 0.25
_MARK_SECONDS = 1.0
# A mail server may take ten minutes for its answer (RFC 5321 4.5.3.2.6).
_MAIL_SERVER_PATIENCE = 15.0
_HELD_SECONDS = 0.5
_WAIT_SECONDS = 5.0  # for work, should nobody say that there is some
_ROOM_SECONDS = 0.05  # until another look for room: answers come without a word to us
_STOPPED = (MessageStatus.PAUSED, MessageStatus.CANCELLED)


class Sender:
    def __init__(
        self,
        services: SenderServices,
        transport: Transport,
        settings: SenderSettings,
        limits: DomainLimits | None = None,
        history: StoreHistory | None = None,
    ) -> None:
        """The marks of `history` advance every second while emails are sent."""
        self._history = history
        self.owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._settings = settings
        self._queue = services.store.queue(SEND_QUEUE)
        self._poison = services.store.queue(POISON_QUEUE)
        self._journal = Journal(settings.journals, self.owner)
        self._room = asyncio.Event()
        self._window = Window(transport.at_once, settings.most_in_hand)
        self._sent = 0  # by pages that have ended
        self._turns = 0  # of the loop that takes pages
        self._in_hand: dict[asyncio.Task[None], InHand] = {}
        self._pages_in_hand: dict[str, InHand] = {}
        self._lost_history = LostHistory(
            services, self.owner, settings, history, self._pages_in_hand.__contains__
        )
        self._work = PageWork(
            services,
            transport,
            settings,
            limits,
            self._journal,
            self._lost_history,
            self._room.set,
            self._stop_sending,
        )
        self._store_wait = self._work.store_wait
        self._restoring = Restoring(services, self.owner)
        self._recovery = Recovery(
            services,
            self.owner,
            settings.retry,
            settings.in_doubt,
            settings.lease,
            self._lost_history.remember,
        )

    @property
    def is_busy(self) -> bool:
        """Whether it has pages in hand."""
        return bool(self._in_hand)

    def doing(self) -> dict[str, Doing]:
        """What must make progress now (see `watchdog.py`): nothing while the store is out."""
        if self._store_wait.is_out:
            return {}
        pages = self._in_hand.values()
        doing = {"looking for work": Doing(self._turns, rest=_WAIT_SECONDS)}
        if any(page.is_sending for page in pages):
            sent = self._sent + sum(page.sent for page in pages)
            doing["waiting for the mail server"] = Doing(sent, _MAIL_SERVER_PATIENCE)
        for page in pages:
            if not page.is_sending:
                doing[f"page {page.item.partition}"] = Doing(page.sending is None)
        return doing

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: take and send."""
        async with kept_on_one_core() if self._settings.one_core else nullcontext():
            await self._run(stopping)

    async def _run(self, stopping: asyncio.Event) -> None:
        renewing = asyncio.create_task(self._work.leases.keep(self._in_hand.values))
        recovering = asyncio.create_task(self._recover())
        obeying = asyncio.create_task(self._obey())
        marking = asyncio.create_task(self._mark())
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done():
                self._turns += 1
                await self._take(stop)
        finally:
            await self._drain()
            beside = (renewing, recovering, obeying, marking, stop)
            await end_tasks(beside)
            self._journal.close()
            self._lost_history.close()

    async def _take(self, stop: asyncio.Task[bool]) -> None:
        """Take what there is room for, or wait for room or work."""
        room = min(self._settings.claim, self._room_for())
        if room < 1:
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROOM_SECONDS):
                    await self._room.wait()
            return
        try:
            self._journal.prepare()
            if await self._work.faults.is_account_held():
                # Pages are only put aside, or probe: there is no hurry.
                await asyncio.wait([stop], timeout=_HELD_SECONDS)
            items = await self._queue.receive(room, lease=self._settings.lease)
            self._store_wait.worked()
            await self._begin(items)
            if not items:
                self._window.rest()
                await self._wait_for_work(stop)
        except StoreOutage as exc:
            self._store_wait.failed(exc, "work waits")
            await asyncio.wait([stop], timeout=1.0)

    def _room_for(self) -> int:
        """How many pages may be taken. None while others cannot be recorded."""
        if self._store_wait.is_holding_pages or self._lost_history.is_waiting:
            return 0
        pages = self._in_hand.values()
        most = self._settings.most_in_hand
        if len(pages) + min(self._settings.claim, most) > most:
            return 0  # too few to be taken together
        unsent = sum(page.unsent for page in pages)
        sent = self._sent + sum(page.sent for page in pages)
        return self._window.room(len(pages), unsent, sent)

    async def _wait_for_work(self, stop: asyncio.Task[bool]) -> None:
        arrival = asyncio.create_task(self._queue.wait(_WAIT_SECONDS))
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
            taking = asyncio.create_task(self._work.take_together(ref, pages))
            for in_hand in pages:
                task = asyncio.create_task(self._finish(in_hand, taking))
                self._in_hand[task] = in_hand
                task.add_done_callback(self._end)

    async def _meet_again(self, in_hand: InHand, message: QueueMessage) -> None:
        """A work item of a page that we are working on already: one of us is enough.

        The same item again, because its lease ran out while we were busy: its new receipt counts.
        Another item for the page, made after a restart of the scheduler: it can wait.
        """
        if message.id == in_hand.message.id:
            in_hand.message = message
            in_hand.lost_item = False
            self._journal.page_renewed(in_hand.item.partition, message.receipt)
            return
        with suppress(LeaseLost):
            await self._queue.release(message, delay=self._settings.lease, count_attempt=False)

    def _end(self, task: asyncio.Task[None]) -> None:
        in_hand = self._in_hand.pop(task)
        self._forget(in_hand)
        self._sent += in_hand.sent
        self._room.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("a page failed and will be taken again", exc_info=task.exception())

    def _forget(self, in_hand: InHand) -> None:
        """From now on a work item of this page is a new one."""
        if self._pages_in_hand.get(in_hand.item.partition) is in_hand:
            del self._pages_in_hand[in_hand.item.partition]

    async def _finish(self, in_hand: InHand, taking: asyncio.Task[None]) -> None:
        """One work item, from the claim of its page to its deletion or release."""
        item = in_hand.item
        release_for: float | None = None
        try:
            with about(message=item.ref, page=item.page), PAGE_SECONDS.timed():
                release_for = await self._store_wait.until_done(
                    lambda: self._work_on(in_hand, taking),
                    f"page {item.partition} waits",
                    lambda: self._work.is_stopping,
                )
        except PageTaken as taken:
            release_for = max(1.0, (taken.free_at - datetime.now(UTC)).total_seconds())
        except (PageLost, LeaseLost):
            log.warning("page %s was taken over by another sender", item.partition)
            self._lost_history.suspect(item)
        except StoreOutage as exc:
            # Its successor settles it from the journal.
            log.warning("page %s is left to the next sender: %s", item.partition, exc)
            return
        # Before the item is released: we may be the one who receives it at that very moment.
        self._journal.page_ended(item.partition)
        self._forget(in_hand)
        if release_for is not None:
            try:
                await self._queue.release(in_hand.message, delay=release_for, count_attempt=False)
            except (LeaseLost, StoreOutage) as exc:
                log.info("page %s is taken again once its lease is over: %s", item.partition, exc)

    async def _work_on(self, in_hand: InHand, taking: asyncio.Task[None]) -> float | None:
        """Work on a page that was taken together with others, or by itself if that failed."""
        with suppress(StoreOutage):
            await asyncio.shield(taking)
        try:
            if in_hand.was_interrupted:
                await self._work.leases.reclaim(in_hand)
            return await self._work.work_on(in_hand)
        except StoreOutage:
            in_hand.taken = None
            in_hand.was_interrupted = True
            raise

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
                    message = await self._work.mailings.message(in_hand.item.ref)
                except StoreOutage:
                    continue
                if message is not None and message.status in _STOPPED:
                    in_hand.stop_sending()

    def _stop_sending(self, ref: MessageRef | None) -> None:
        """Stop sending a message, or everything: the mail server would say the same to all."""
        for in_hand in self._in_hand.values():
            if ref is None or in_hand.item.ref == ref:
                in_hand.stop_sending()

    async def _mark(self) -> None:
        """Note every second, in the store and beside it, that emails are being sent, and look
        whether the store still knows about those that were."""
        marked = -1
        while True:
            sent = self._sent + sum(page.sent for page in self._in_hand.values())
            try:
                is_behind = False
                if self._history is not None and (self._in_hand or sent != marked):
                    is_behind = not await self._history.advance()
                    marked = sent
                await self._lost_history.watch(is_behind=is_behind)
            except (StoreOutage, OSError) as exc:
                log.debug("history is not marked for now: %s", exc)
            except Exception:  # compared again in a second: nobody else knows what was sent
                log.exception("what was sent could not be compared with the store")
            await asyncio.sleep(_MARK_SECONDS)

    async def _recover(self) -> None:
        """At the start and then every second: dead senders of this machine, and recipients whose
        refusal does not count."""
        while True:
            try:
                self._lost_history.adopt()
                await self._recovery.settle_the_dead(self._settings.journals)
                await self._restoring.restore()
            except StoreOutage as exc:
                log.warning("the dead must wait: %s", exc)
            except Exception:  # looked at again: they have nobody else on this machine
                log.exception("a dead sender's pages could not be settled")
            await asyncio.sleep(1.0)

    async def _drain(self) -> None:
        """Only what is being sent is stopped; everything else comes to its end.

        During an outage of the store, pages that are not being sent are left as they are: the
        journal tells the next sender about them.
        """
        self._work.is_stopping = True
        while self._in_hand:
            self._turns += 1
            for task, in_hand in self._in_hand.items():
                in_hand.stop_sending()
                if self._store_wait.is_out and not in_hand.is_sending:
                    task.cancel()
            await asyncio.wait(list(self._in_hand), timeout=0.5)
