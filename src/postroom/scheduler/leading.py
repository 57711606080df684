"""Any number of schedulers may run; the one that holds the lease acts.

The leader wakes when a message becomes due: whoever schedules, resumes or cancels one puts a bell
into the queue `mail/schedule`, delayed until then. A lost bell costs at most a few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from datetime import UTC, datetime

from postroom.cancellation import end_tasks
from postroom.domain.errors import NoSuch, Overtaken
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.pages import SCHEDULE_QUEUE
from postroom.domain.messages.refs import MessageRef
from postroom.observability.spans import span
from postroom.scheduler.completion import Completion
from postroom.scheduler.fan_out import FanOut, Superseded
from postroom.scheduler.services import SchedulerServices
from postroom.services.operations.disk_space import SpaceWatch
from postroom.storage import Lease, LeaseLost, StoreOutage
from postroom.watchdog import Doing

log = logging.getLogger(__name__)

LEASE_NAME = "scheduler"
LEASE_SECONDS = 15.0
_LOOK_SECONDS = 5.0  # at least this often, should a bell be lost
_QUICKEST_CHECK, _SLOWEST_CHECK = 0.1, 1.0  # whether a message is done
_LAST_PAGES, _LAST_CHECKS = 50, 0.02  # what senders do in some 0.2 seconds; looked at so often
_PAUSE_AFTER_FAILURE = 1.0
_RELEASE_SECONDS = 5.0  # during an outage the lease is left to run out


class Scheduler:
    def __init__(
        self,
        services: SchedulerServices,
        *,
        lease_seconds: float = LEASE_SECONDS,
        space: SpaceWatch | None = None,
    ) -> None:
        """`space` keeps messages from starting while there is too little disk space."""
        self._store = services.store
        self._space = space
        self._lease_seconds = lease_seconds
        self._bell = services.store.queue(SCHEDULE_QUEUE)
        self._messages = services.message_rows
        self._fan_out = FanOut(services)
        self._completion = Completion(services)
        self._tasks: dict[MessageRef, asyncio.Task[None]] = {}
        self._leads_until = 0.0
        self._turns = 0  # of the loop that looks for messages
        self._windows = 0  # of fan-out
        self._is_out = False  # the store

    def doing(self) -> dict[str, Doing]:
        """What must make progress now (see `watchdog.py`): nothing while the store is out."""
        if self._is_out:
            return {}
        rest = max(_LOOK_SECONDS, self._lease_seconds / 3)
        doing = {"looking for messages": Doing(self._turns, rest=rest)}
        if self._tasks:
            doing["working on messages"] = Doing((self._windows, self._completion.steps))
        return doing

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: wait for the lease, then act while it is held."""
        while not stopping.is_set():
            self._turns += 1
            try:
                lease = await self._store.acquire_lease(LEASE_NAME, seconds=self._lease_seconds)
                self._is_out = False
                if lease is None:
                    await _first_of(stopping.wait(), timeout=self._lease_seconds / 3)
                    continue
                await self._lead(lease, stopping)
            except (LeaseLost, StoreOutage, TimeoutError) as exc:
                self._is_out = not isinstance(exc, LeaseLost)
                log.warning("the scheduler stands back: %s", exc)
                await _first_of(stopping.wait(), timeout=_PAUSE_AFTER_FAILURE)

    async def _lead(self, lease: Lease, stopping: asyncio.Event) -> None:
        log.info("this process schedules (fencing number %d)", lease.fencing)
        self._leads_until = time.monotonic() + lease.seconds
        if self._space is not None:
            self._space.begin()
        renewing = asyncio.create_task(self._renew(lease))
        try:
            while not stopping.is_set() and not renewing.done():
                self._turns += 1
                await self._start_what_is_due()
                await _first_of(
                    stopping.wait(), self._bell.wait(await self._pause()), _finished(renewing)
                )
                await self._empty_bell()
            if renewing.done():
                renewing.result()
        finally:
            await end_tasks([renewing, *self._tasks.values()])
        async with asyncio.timeout(_RELEASE_SECONDS):
            await self._store.release_lease(lease)

    async def _renew(self, lease: Lease) -> None:
        """Well before it runs out. Ends with the error that lost it."""
        while True:
            await asyncio.sleep(lease.seconds / 3)
            before = time.monotonic()
            await self._store.renew_lease(lease)
            self._leads_until = before + lease.seconds

    def _leads(self) -> bool:
        """Whether the lease is certainly still ours: by our own clock, with a margin."""
        self._windows += 1
        return time.monotonic() < self._leads_until - self._lease_seconds / 10

    async def _start_what_is_due(self) -> None:
        """A task for each message that something can be done for; they do not wait for another.
        Without enough disk space no message starts, and those that have started go on."""
        may_start = self._space is None or await self._space.may_start()
        async for message in self._messages.open_messages():
            # To the end: one that was cancelled before its time is behind others that wait.
            if not _wants_something(message) or message.ref in self._tasks:
                continue
            if message.status is MessageStatus.PENDING and not may_start:
                continue
            task = asyncio.create_task(self._advance(message.ref))
            self._tasks[message.ref] = task
            task.add_done_callback(lambda _, ref=message.ref: self._tasks.pop(ref, None))  # type: ignore[misc]

    async def _pause(self) -> float:
        """How long nothing is due."""
        now = datetime.now(UTC)
        async for message in self._messages.open_messages():
            if message.status is MessageStatus.PENDING and message.scheduled_at > now:
                return min(_LOOK_SECONDS, (message.scheduled_at - now).total_seconds())
        return _LOOK_SECONDS

    async def _empty_bell(self) -> None:
        while rung := await self._bell.receive(32, lease=30):
            for message in rung:
                try:
                    await self._bell.delete(message)
                except LeaseLost:
                    continue

    async def _advance(self, ref: MessageRef) -> None:
        """Take a message as far as it goes: until it is done, or paused."""
        try:
            message: Message | None = await self._messages.get_for_change(ref)
            while message is not None and _wants_something(message):
                message = await self._step(message)
        except (Superseded, Overtaken, NoSuch) as exc:
            log.info("message %s: left alone for now (%s)", ref, type(exc).__name__)
        except StoreOutage as exc:
            log.warning("message %s: %s; it goes on when the store is back", ref, exc)
            await asyncio.sleep(_PAUSE_AFTER_FAILURE)

    async def _step(self, message: Message) -> Message | None:
        """What its status asks for; answers how it then stands, None once it is archived."""
        if message.status is MessageStatus.PENDING:
            log.info("message %s: queuing", message.ref)
            return await self._fan_out.begin(message)
        if message.status is MessageStatus.QUEUING:
            with span("fan out", parent=message.trace, message=message.ref):
                message = await self._fan_out.run(message, self._leads)
            log.info("message %s: %d pages queued", message.ref, message.queued_pages)
            return message
        if message.status is MessageStatus.CANCELLED:
            message, _ = await self._fan_out.finish_interrupted(message)
        await self._completion.put_back(message)
        return await self._watch(message)

    async def _watch(self, message: Message) -> Message | None:
        """Until the message is done (None), or somebody has changed it."""
        pause = self._quickest_check(message)
        reached = 0
        current = message
        while current.etag == message.etag and self._leads():
            if await self._completion.check(current):
                log.info("message %s: done", message.ref)
                return None
            await asyncio.sleep(pause)
            before, reached = reached, self._completion.reached(message.ref)
            # Pages are being finished: the last of them may be so soon.
            quickest = self._quickest_check(message)
            pause = quickest if reached > before else min(_SLOWEST_CHECK, pause * 1.5)
            current = await self._messages.get(message.ref)
        if not self._leads():
            raise Superseded
        return current

    def _quickest_check(self, message: Message) -> float:
        left = message.queued_pages - self._completion.reached(message.ref)
        return _LAST_CHECKS if left <= _LAST_PAGES else _QUICKEST_CHECK


def _wants_something(message: Message) -> bool:
    """It is not paused, and not to be sent later only."""
    if message.status is MessageStatus.PENDING:
        return message.scheduled_at <= datetime.now(UTC)
    return message.status is not MessageStatus.PAUSED


async def _first_of(*awaitables: Awaitable[object], timeout: float | None = None) -> None:
    """Wait until one of them is there, and end the others."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end_tasks(tasks)


async def _finished(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
