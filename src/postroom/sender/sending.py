"""The sender: takes work items, a few at a time, and works on several pages at once.

Order of a shutdown (SIGTERM): it takes no more items; the transport finishes the emails in
progress; each active page is settled with the results so far; work items of unfinished pages are
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
from postroom.sender.pages.active_pages import ActivePage
from postroom.sender.pages.claims import PageLost, PageTaken
from postroom.sender.pages.page_work import PageWork
from postroom.sender.pages.window import Window
from postroom.sender.sender_settings import SenderServices, SenderSettings
from postroom.services.operations.store_history import StoreHistory
from postroom.storage import LeaseLost, QueueMessage, StoreOutage
from postroom.transport.contract import Transport
from postroom.tuning import kept_on_one_core
from postroom.watchdog import Doing

log = logging.getLogger(__name__)

POISON_QUEUE = f"{SEND_QUEUE};poison"

_STATUS_SECONDS = 0.25
_MARK_SECONDS = 1.0
# A mail server may take ten minutes for its reply (RFC 5321 4.5.3.2.6).
_MAIL_SERVER_PATIENCE = 15.0
_HELD_SECONDS = 0.5
_WAIT_SECONDS = 5.0  # for work, if no notification comes
_ROOM_SECONDS = 0.05  # between checks for room: results arrive without a notification
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
        """`history` is marked every second while emails are sent."""
        self._history = history
        self.owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._settings = settings
        self._queue = services.store.queue(SEND_QUEUE)
        self._poison = services.store.queue(POISON_QUEUE)
        self._journal = Journal(settings.journals, self.owner)
        self._room = asyncio.Event()
        self._window = Window(transport.at_once, settings.most_pages)
        self._sent = 0  # emails of finished pages
        self._turns = 0  # iterations of the main loop
        self._active: dict[asyncio.Task[None], ActivePage] = {}
        self._active_partitions: dict[str, ActivePage] = {}
        self._lost_history = LostHistory(
            services, self.owner, settings, history, self._active_partitions.__contains__
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
        self._store_outages = self._work.store_outages
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
        """Whether pages are active."""
        return bool(self._active)

    def doing(self) -> dict[str, Doing]:
        """Return what must make progress now (see `watchdog.py`): nothing during a store outage."""
        if self._store_outages.is_out:
            return {}
        pages = self._active.values()
        doing = {"looking for work": Doing(self._turns, rest=_WAIT_SECONDS)}
        if any(page.is_sending for page in pages):
            sent = self._sent + sum(page.sent for page in pages)
            doing["waiting for the mail server"] = Doing(sent, _MAIL_SERVER_PATIENCE)
        for page in pages:
            if not page.is_sending:
                doing[f"page {page.item.partition}"] = Doing(page.sending is None)
        return doing

    async def run(self, stopping: asyncio.Event) -> None:
        """Take and send pages until `stopping`."""
        async with kept_on_one_core() if self._settings.one_core else nullcontext():
            await self._run(stopping)

    async def _run(self, stopping: asyncio.Event) -> None:
        renewing = asyncio.create_task(self._work.leases.keep(self._active.values))
        recovering = asyncio.create_task(self._recover())
        stopping_paused = asyncio.create_task(self._stop_paused())
        marking = asyncio.create_task(self._mark())
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done():
                self._turns += 1
                await self._take(stop)
        finally:
            await self._drain()
            background = (renewing, recovering, stopping_paused, marking, stop)
            await end_tasks(background)
            self._journal.close()
            self._lost_history.close()

    async def _take(self, stop: asyncio.Task[bool]) -> None:
        """Take as many pages as there is room for, or wait for room or work."""
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
                # Pages are only held or probed: no hurry.
                await asyncio.wait([stop], timeout=_HELD_SECONDS)
            items = await self._queue.receive(room, lease=self._settings.lease)
            self._store_outages.worked()
            await self._begin(items)
            if not items:
                self._window.rest()
                await self._wait_for_work(stop)
        except StoreOutage as exc:
            self._store_outages.failed(exc, "work waits")
            await asyncio.wait([stop], timeout=1.0)

    def _room_for(self) -> int:
        """Return how many pages may be taken: none while others cannot be recorded."""
        if self._store_outages.is_holding_pages or self._lost_history.is_waiting:
            return 0
        pages = self._active.values()
        most = self._settings.most_pages
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
        taken: dict[MessageRef, list[ActivePage]] = {}
        for message in messages:
            try:
                item = parse_work_item(message.body)
            except Invalid as exc:
                await self._set_aside(message, exc)
                continue
            if item.partition in self._active_partitions:
                await self._receive_again(self._active_partitions[item.partition], message)
                continue
            # First of all: if we are killed, the next sender can release it at once.
            self._journal.page_taken(item.partition, message.id, message.receipt, message.body)
            active = ActivePage(message, item)
            self._active_partitions[item.partition] = active
            taken.setdefault(item.ref, []).append(active)
        for ref, pages in taken.items():
            taking = asyncio.create_task(self._work.take_together(ref, pages))
            for active in pages:
                task = asyncio.create_task(self._finish(active, taking))
                self._active[task] = active
                task.add_done_callback(self._end)

    async def _receive_again(self, active: ActivePage, message: QueueMessage) -> None:
        """Handle a work item of a page that is active here already.

        If it is the same item, its lease ran out while we were busy: use the new receipt. If it is
        another one, created after a restart of the scheduler, it can wait.
        """
        if message.id == active.message.id:
            active.message = message
            active.lost_item = False
            self._journal.page_renewed(active.item.partition, message.receipt)
            return
        with suppress(LeaseLost):
            await self._queue.release(message, delay=self._settings.lease, count_attempt=False)

    def _end(self, task: asyncio.Task[None]) -> None:
        active = self._active.pop(task)
        self._forget(active)
        self._sent += active.sent
        self._room.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("a page failed and will be taken again", exc_info=task.exception())

    def _forget(self, active: ActivePage) -> None:
        """Treat work items of this page as new from now on."""
        if self._active_partitions.get(active.item.partition) is active:
            del self._active_partitions[active.item.partition]

    async def _finish(self, active: ActivePage, taking: asyncio.Task[None]) -> None:
        """Process one work item, from the claim of its page to its deletion or release."""
        item = active.item
        release_for: float | None = None
        try:
            with about(message=item.ref, page=item.page), PAGE_SECONDS.timed():
                release_for = await self._store_outages.until_done(
                    lambda: self._work_on(active, taking),
                    f"page {item.partition} waits",
                    lambda: self._work.is_stopping,
                )
        except PageTaken as taken:
            release_for = max(1.0, (taken.free_at - datetime.now(UTC)).total_seconds())
        except (PageLost, LeaseLost):
            log.warning("page %s was taken over by another sender", item.partition)
            self._lost_history.suspect(item)
        except StoreOutage as exc:
            # The next sender settles it from the journal.
            log.warning("page %s is left to the next sender: %s", item.partition, exc)
            return
        # Before the item is released: we may receive it again at once.
        self._journal.page_ended(item.partition)
        self._forget(active)
        if release_for is not None:
            try:
                await self._queue.release(active.message, delay=release_for, count_attempt=False)
            except (LeaseLost, StoreOutage) as exc:
                log.info("page %s is taken again when its lease expires: %s", item.partition, exc)

    async def _work_on(self, active: ActivePage, taking: asyncio.Task[None]) -> float | None:
        """Work on a page that was claimed together with others, or alone if that failed."""
        with suppress(StoreOutage):
            await asyncio.shield(taking)
        try:
            if active.was_interrupted:
                await self._work.leases.reclaim(active)
            return await self._work.work_on(active)
        except StoreOutage:
            active.taken = None
            active.was_interrupted = True
            raise

    async def _set_aside(self, message: QueueMessage, why: Invalid) -> None:
        """Move a message that is not a work item to the poison queue."""
        log.error("a queue message is set aside in %s: %s", POISON_QUEUE, why)
        await self._poison.put(message.body, properties={"error": str(why)[:1000]})
        await self._queue.delete(message)

    # -- background tasks --------------------------------------------------------------------

    async def _stop_paused(self) -> None:
        """Stop sending paused and cancelled messages, even in the middle of a page."""
        while True:
            await asyncio.sleep(_STATUS_SECONDS)
            for active in list(self._active.values()):
                try:
                    message = await self._work.mailings.message(active.item.ref)
                except StoreOutage:
                    continue
                if message is not None and message.status in _STOPPED:
                    active.stop_sending()

    def _stop_sending(self, ref: MessageRef | None) -> None:
        """Stop sending one message, or all: the mail server would give the same reply to all."""
        for active in self._active.values():
            if ref is None or active.item.ref == ref:
                active.stop_sending()

    async def _mark(self) -> None:
        """Record every second, in the store and locally, that emails are being sent, and check
        whether the store still has the records of sent ones."""
        marked = -1
        while True:
            sent = self._sent + sum(page.sent for page in self._active.values())
            try:
                is_behind = False
                if self._history is not None and (self._active or sent != marked):
                    is_behind = not await self._history.advance()
                    marked = sent
                await self._lost_history.watch(is_behind=is_behind)
            except (StoreOutage, OSError) as exc:
                log.debug("history cannot be marked now: %s", exc)
            except Exception:  # tried again in a second: no other process knows what was sent
                log.exception("sent emails could not be compared with the store")
            await asyncio.sleep(_MARK_SECONDS)

    async def _recover(self) -> None:
        """Settle the pages of dead senders on this machine, and restore recipients who were refused
        by mistake; at the start and then every second."""
        while True:
            try:
                self._lost_history.adopt()
                await self._recovery.settle_dead_senders(self._settings.journals)
                await self._restoring.restore()
            except StoreOutage as exc:
                log.warning("pages of dead senders cannot be settled now: %s", exc)
            except Exception:  # tried again in a second
                log.exception("a dead sender's pages could not be settled")
            await asyncio.sleep(1.0)

    async def _drain(self) -> None:
        """Stop sending, and let everything else finish.

        During a store outage, pages that are not being sent are left as they are: the next sender
        settles them from the journal.
        """
        self._work.is_stopping = True
        while self._active:
            self._turns += 1
            for task, active in self._active.items():
                active.stop_sending()
                if self._store_outages.is_out and not active.is_sending:
                    task.cancel()
            await asyncio.wait(list(self._active), timeout=0.5)
