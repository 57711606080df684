"""The sender: takes work items, a few at a time, and works on several pages at once.

Order of a shutdown (SIGTERM): it takes no more items; the transport finishes the emails in
progress; each active page is settled with the results so far; work items of unfinished pages are
released immediately, uncounted, for another sender.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from contextlib import nullcontext, suppress

from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.pages import SEND_QUEUE, parse_work_item
from postroom.domain.messages.refs import MessageRef
from postroom.sender.faults.faults import Faults
from postroom.sender.faults.lost_history import LostHistory
from postroom.sender.faults.restoring import Restoring
from postroom.sender.faults.store_outages import StoreOutages
from postroom.sender.journal.journal import Journal
from postroom.sender.journal.recovery import Recovery
from postroom.sender.limits.paced_sending import PacedSending
from postroom.sender.limits.sending_limits import SendingLimits
from postroom.sender.mailings import Mailings
from postroom.sender.pages.active_pages import ActivePage
from postroom.sender.pages.page_work import PageWork
from postroom.sender.pages.window import Window
from postroom.sender.queue_loop import WAIT_SECONDS, QueueLoop
from postroom.sender.sender_parts import SenderParts
from postroom.sender.sender_settings import SenderServices, SenderSettings
from postroom.services.operations.store_history import StoreHistory
from postroom.services.queues.poison import move_to_poison
from postroom.storage import LeaseLost, QueueMessage, StoreOutage
from postroom.transport.contract import Transport
from postroom.tuning import kept_on_one_core
from postroom.watchdog import Doing, end_tasks

log = logging.getLogger(__name__)


_STATUS_SECONDS = 0.25
_MARK_SECONDS = 1.0
# A mail server may take ten minutes for its reply (RFC 5321 4.5.3.2.6).
_MAIL_SERVER_PATIENCE = 15.0
_STOPPED = (MessageStatus.PAUSED, MessageStatus.CANCELLED)


class Sender:
    takes_held = True  # to mark their pages, and to probe

    def __init__(
        self,
        services: SenderServices,
        transport: Transport,
        settings: SenderSettings,
        limits: SendingLimits | None = None,
        history: StoreHistory | None = None,
    ) -> None:
        """`history` is marked every second while emails are sent."""
        self.owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._settings = settings
        self._history = history
        self._queue = services.store.queue(SEND_QUEUE)
        self._journal = journal = Journal(settings.journals, self.owner)
        self._window = Window(transport.concurrency, settings.most_pages)
        self._sent = 0  # emails of finished pages
        self._pages: dict[str, ActivePage] = {}
        self._groups: set[asyncio.Task[None]] = set()
        self._lost_history = LostHistory(
            services, self.owner, settings, history, self._pages.__contains__
        )
        self._stopping = asyncio.Event()
        self._store_outages = StoreOutages(self._stopping)
        limits = limits or SendingLimits()
        self._faults = Faults(
            services, self.owner, self._stop_sending, limits.throttled, limits.rest_after
        )
        self._mailings = Mailings(
            services, settings.base_url, settings.signer, services.link_tables
        )
        self._loop = QueueLoop(
            self._queue, self, self._store_outages, lease=settings.lease, concurrency=settings.claim
        )
        parts = SenderParts(
            services,
            settings,
            transport,
            limits,
            PacedSending(),
            journal,
            self._store_outages,
            self._lost_history,
            self._faults,
            self._mailings,
            self._stopping,
        )
        self._work = PageWork(parts, progressed=self._loop.signal_room, ended=self._forget)
        self._restoring = Restoring(services)
        self._recovery = Recovery(
            services,
            settings.retry,
            settings.in_doubt,
            self._lost_history.remember,
            self._lost_history.suspect,
        )

    @property
    def is_busy(self) -> bool:
        """Whether pages are active."""
        return bool(self._pages)

    def doing(self) -> dict[str, Doing]:
        """Return what must make progress now (see `watchdog.py`): nothing during a store outage."""
        if self._store_outages.is_out:
            return {}
        pages = self._pages.values()
        doing = {"looking for work": Doing(self._loop.iterations, rest=WAIT_SECONDS)}
        if any(page.is_sending for page in pages):
            doing["waiting for the mail server"] = Doing(self._sent_so_far(), _MAIL_SERVER_PATIENCE)
        for page in pages:
            if not page.is_sending:
                doing[f"page {page.item.partition}"] = Doing(page.sending is None)
        return doing

    async def run(self, stopping: asyncio.Event) -> None:
        """Take and send pages until `stopping`."""
        async with kept_on_one_core() if self._settings.one_core else nullcontext():
            background = [
                asyncio.create_task(each)
                for each in (
                    self._work.leases.keep(self._pages.values),
                    self._recover(),
                    self._stop_paused(),
                    self._mark(),
                )
            ]
            try:
                await self._loop.run(stopping)
            finally:
                await end_tasks(background)
                self._journal.close()
                self._lost_history.close()

    # -- for the loop --------------------------------------------------------------------------

    def room(self) -> int:
        """Return how many pages may be taken: none while others cannot be recorded."""
        if self._store_outages.is_holding_pages or self._lost_history.is_waiting:
            return 0
        pages = self._pages.values()
        most = self._settings.most_pages
        if len(pages) + min(self._settings.claim, most) > most:
            return 0  # too few for a group
        unsent = sum(page.unsent for page in pages)
        return self._window.room(len(pages), unsent, self._sent_so_far())

    async def is_held(self) -> bool:
        self._journal.prepare()
        return await self._faults.is_account_held()

    async def begin(self, items: list[QueueMessage]) -> None:
        if not items:
            self._window.rest()
        groups: dict[MessageRef, list[ActivePage]] = {}
        again: list[tuple[ActivePage, QueueMessage]] = []
        broken: list[tuple[QueueMessage, Invalid]] = []
        for message in items:
            try:
                item = parse_work_item(message.body)
            except Invalid as exc:
                broken.append((message, exc))
                continue
            if (known := self._pages.get(item.partition)) is not None:
                again.append((known, message))
                continue
            # First of all: if we are killed, the next sender can release it immediately.
            self._journal.page_taken(item.partition, message.id, message.receipt, message.body)
            taken = self._pages[item.partition] = ActivePage(message, item)
            groups.setdefault(item.ref, []).append(taken)
        for group in groups.values():
            task = asyncio.create_task(self._work_on(group))
            self._groups.add(task)
            task.add_done_callback(self._groups.discard)
        # Last, because the store may fail: every page above must have its task by then.
        for known, message in again:
            await self._receive_again(known, message)
        for message, why in broken:
            await move_to_poison(self._queue, message, why)

    def stop(self) -> set[asyncio.Task[None]]:
        """Stop sending, and let everything else finish.

        During a store outage, pages that are not being sent are left as they are: the next sender
        settles them from the journal.
        """
        self._stopping.set()
        for page in self._pages.values():
            page.stop_sending()
        if self._store_outages.is_out and not any(page.is_sending for page in self._pages.values()):
            for task in self._groups:
                task.cancel()
        return self._groups.copy()

    async def _work_on(self, group: list[ActivePage]) -> None:
        try:
            await self._work.work_on(group)
        except Exception:
            log.exception("pages failed and will be retried")
        finally:
            for page in group:
                self._forget(page)

    async def _receive_again(self, taken: ActivePage, message: QueueMessage) -> None:
        """Handle a work item of a page that is active here already.

        If it is the same item, its lease ran out while we were busy: use the new receipt. If it is
        another one, created after a restart of the scheduler, it can wait.
        """
        if message.id == taken.message.id:
            taken.message = message
            taken.is_item_lost = False
            self._journal.page_renewed(taken.item.partition, message.receipt)
            return
        with suppress(LeaseLost):
            await self._queue.release(message, delay=self._settings.lease, count_attempt=False)

    def _forget(self, taken: ActivePage) -> None:
        """Treat work items of this page as new from now on."""
        if self._pages.get(taken.item.partition) is taken:
            del self._pages[taken.item.partition]
            self._sent += taken.sent
            self._loop.signal_room()

    def _sent_so_far(self) -> int:
        return self._sent + sum(page.sent for page in self._pages.values())

    # -- background tasks ----------------------------------------------------------------------

    async def _stop_paused(self) -> None:
        """Stop sending paused and cancelled messages, even in the middle of a page."""
        while True:
            await asyncio.sleep(_STATUS_SECONDS)
            for page in list(self._pages.values()):
                try:
                    message = await self._mailings.message(page.item.ref)
                except StoreOutage:
                    continue
                if message is not None and message.status in _STOPPED:
                    page.stop_sending()

    def _stop_sending(self, ref: MessageRef | None) -> None:
        """Stop sending one message, or all: the mail server would give the same reply to all."""
        for page in self._pages.values():
            if ref is None or page.item.ref == ref:
                page.stop_sending()

    async def _mark(self) -> None:
        """Record every second, in the store and locally, that emails are being sent, and check
        whether the store still has the records of sent ones."""
        marked = -1
        while True:
            sent = self._sent_so_far()
            try:
                is_behind = False
                if self._history is not None and (self._pages or sent != marked):
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
