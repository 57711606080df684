"""The scheduler: any number may run; the one that holds the lease acts.

It wakes when a message becomes due: scheduling, resuming or cancelling one puts a queue message
into `mail/schedule`, the bell, delayed until then. A lost one costs at most a few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from postroom import clock
from postroom.domain.errors import NoSuch, Overtaken
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.pages import SCHEDULE_QUEUE
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.canaries import ONLY_CHOSEN, CanaryRules
from postroom.observability.spans import span
from postroom.scheduler.completion import Completion
from postroom.scheduler.fan_out import FanOut, Superseded
from postroom.scheduler.services import SchedulerServices
from postroom.scheduler.waiting_waves import WaitingWaves
from postroom.services.operations.disk_space import SpaceWatch
from postroom.storage import Lease, LeaseLost, StoreOutage
from postroom.watchdog import Doing, end_tasks

log = logging.getLogger(__name__)

LEASE_NAME = "scheduler"
LEASE_SECONDS = 15.0
_LOOK_SECONDS = 5.0  # at least this often, should a bell message be lost
_QUICKEST_CHECK, _SLOWEST_CHECK = 0.1, 1.0  # seconds between checks whether a message is done
_REOPENED_CHECK = 10.0  # seconds between looks at pages that were done, while a wave waits
_LAST_PAGES, _LAST_CHECKS = 100, 0.02  # senders finish 100 pages in 0.2 seconds: check more often
_PAUSE_AFTER_FAILURE = 1.0
_IDLE = frozenset({MessageStatus.DRAFT, MessageStatus.PAUSED})
"""Nothing is done with these. A draft appears here only if someone unschedules it at this
moment."""
_RELEASE_SECONDS = 5.0  # during an outage the lease expires on its own


class Scheduler:
    def __init__(
        self,
        services: SchedulerServices,
        *,
        lease_seconds: float = LEASE_SECONDS,
        space: SpaceWatch | None = None,
        canary: CanaryRules = ONLY_CHOSEN,
    ) -> None:
        """`space` keeps messages from starting while there is too little disk space."""
        self._store = services.store
        self._space = space
        self._lease_seconds = lease_seconds
        self._bell = services.store.queue(SCHEDULE_QUEUE)
        self._messages = services.message_rows
        self._fan_out = FanOut(services, canary)
        self._waves = WaitingWaves(services, canary)
        self._completion = Completion(services)
        self._tasks: dict[MessageRef, asyncio.Task[None]] = {}
        self._leads_until = 0.0
        self._iterations = 0  # of the loop that looks for messages
        self._windows = 0  # of fan-out
        self._is_out = False  # the store

    def doing(self) -> dict[str, Doing]:
        """Return what must make progress (see `watchdog.py`): nothing during a store outage."""
        if self._is_out:
            return {}
        rest = max(_LOOK_SECONDS, self._lease_seconds / 3)
        doing = {"looking for messages": Doing(self._iterations, rest=rest)}
        if self._tasks:
            doing["working on messages"] = Doing((self._windows, self._completion.steps))
        return doing

    async def run(self, stopping: asyncio.Event) -> None:
        """Wait for the lease, and act while it is held, until `stopping`."""
        while not stopping.is_set():
            self._iterations += 1
            try:
                lease = await self._store.acquire_lease(LEASE_NAME, seconds=self._lease_seconds)
                self._is_out = False
                if lease is None:
                    await _first_of(stopping.wait(), timeout=self._lease_seconds / 3)
                    continue
                await self._lead(lease, stopping)
            except (LeaseLost, StoreOutage, TimeoutError) as exc:
                self._is_out = not isinstance(exc, LeaseLost)
                log.warning("the scheduler gives up the lease: %s", exc)
                await _first_of(stopping.wait(), timeout=_PAUSE_AFTER_FAILURE)

    async def _lead(self, lease: Lease, stopping: asyncio.Event) -> None:
        log.info("this scheduler is active (fencing number %d)", lease.fencing)
        self._leads_until = clock.monotonic() + lease.seconds
        if self._space is not None:
            self._space.begin()
        renewing = asyncio.create_task(self._renew(lease))
        try:
            while not stopping.is_set() and not renewing.done():
                self._iterations += 1
                pause = await self._start_due_messages()
                await _first_of(stopping.wait(), self._bell.wait(pause), _finished(renewing))
                await self._empty_bell()
            if renewing.done():
                renewing.result()
        finally:
            await end_tasks([renewing, *self._tasks.values()])
        async with asyncio.timeout(_RELEASE_SECONDS):
            await self._store.release_lease(lease)

    async def _renew(self, lease: Lease) -> None:
        """Renew the lease well before it expires. Ends with the error that lost it."""
        while True:
            await asyncio.sleep(lease.seconds / 3)
            before = clock.monotonic()
            await self._store.renew_lease(lease)
            self._leads_until = before + lease.seconds

    def _leads(self) -> bool:
        """Return whether the lease is certainly still ours, by our clock and with a margin."""
        self._windows += 1
        return clock.monotonic() < self._leads_until - self._lease_seconds / 10

    async def _start_due_messages(self) -> float:
        """Start a task for each message that needs work; return how long nothing else is due.
        Without enough disk space no message starts, and started ones continue."""
        may_start = self._space is None or await self._space.may_start()
        pause = _LOOK_SECONDS
        async for message in self._messages.open_messages():
            # To the end: one that was cancelled before its time comes after others that wait.
            if message.status is MessageStatus.PENDING:
                due_in = (message.starts_at - clock.now()).total_seconds()
                if due_in > 0:
                    pause = min(pause, due_in)
                if due_in > 0 or not may_start:
                    continue
            if message.status in _IDLE or message.ref in self._tasks:
                continue
            task = asyncio.create_task(self._advance(message.ref))
            self._tasks[message.ref] = task
            task.add_done_callback(lambda _, ref=message.ref: self._tasks.pop(ref, None))  # type: ignore[misc]
        return pause

    async def _empty_bell(self) -> None:
        while rung := await self._bell.receive(32, lease=30):
            for message in rung:
                try:
                    await self._bell.delete(message)
                except LeaseLost:
                    continue

    async def _advance(self, ref: MessageRef) -> None:
        """Advance a message until it is finished or paused."""
        try:
            message: Message | None = await self._messages.get_for_change(ref)
            while message is not None and _needs_work(message):
                message = await self._step(message)
        except (Superseded, Overtaken, NoSuch) as exc:
            log.info("message %s: stopped for now (%s)", ref, type(exc).__name__)
        except StoreOutage as exc:
            log.warning("message %s: %s; it continues when the store is back", ref, exc)
            await asyncio.sleep(_PAUSE_AFTER_FAILURE)

    async def _step(self, message: Message) -> Message | None:
        """Do what the status requires; return the changed message, None once it is archived."""
        if message.status is MessageStatus.PENDING:
            log.info("message %s: queuing", message.ref)
            return await self._fan_out.begin(message)
        if message.status is MessageStatus.QUEUING:
            if message.waves is not None and message.waves.is_waiting:
                return await self._await_wave(message)
            with span("fan out", parent=message.trace, message=message.ref):
                message = await self._fan_out.run(message, self._leads)
            log.info("message %s: %d pages queued", message.ref, message.queued_pages)
            return message
        if message.status is MessageStatus.CANCELLED:
            message, _ = await self._fan_out.finish_interrupted(message)
        await self._completion.put_back(message)
        return await self._watch(message)

    async def _await_wave(self, message: Message) -> Message:
        """Wait until the next wave begins, or the message was changed by others."""
        await self._completion.put_back(message)
        pause, current = _QUICKEST_CHECK, message
        look_again_at = clock.monotonic()
        while current.etag == message.etag and current.waves is not None and self._leads():
            is_open = await self._completion.tend(current)
            if not is_open and clock.monotonic() >= look_again_at:
                self._completion.look_again(current.ref)
                look_again_at = clock.monotonic() + _REOPENED_CHECK
            current = await self._waves.look(current, current.waves)
            if current.etag != message.etag:
                return current
            await asyncio.sleep(pause)
            pause = min(_SLOWEST_CHECK, pause * 1.5)
            current = await self._messages.get(message.ref)
        if not self._leads():
            raise Superseded
        return current

    async def _watch(self, message: Message) -> Message | None:
        """Wait until the message is finished (None) or was changed by others."""
        pause = self._quickest_check(message)
        reached = 0
        current = message
        while current.etag == message.etag and self._leads():
            if await self._completion.check(current):
                log.info("message %s: done", message.ref)
                return None
            await asyncio.sleep(pause)
            before, reached = reached, self._completion.reached(message.ref)
            # Pages are being finished: the last one may follow soon.
            quickest = self._quickest_check(message)
            pause = quickest if reached > before else min(_SLOWEST_CHECK, pause * 1.5)
            current = await self._messages.get(message.ref)
        if not self._leads():
            raise Superseded
        return current

    def _quickest_check(self, message: Message) -> float:
        left = message.queued_pages - self._completion.reached(message.ref)
        return _LAST_CHECKS if left <= _LAST_PAGES else _QUICKEST_CHECK


def _needs_work(message: Message) -> bool:
    """Return whether a message is neither paused nor a draft nor scheduled for later."""
    if message.status is MessageStatus.PENDING:
        return message.starts_at <= clock.now()
    return message.status not in _IDLE


async def _first_of(*awaitables: Awaitable[object], timeout: float | None = None) -> None:
    """Wait for the first of them, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end_tasks(tasks)


async def _finished(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
