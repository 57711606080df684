"""Delivers messages of an application's queues to its processes, and settles their results.

| step | what happens                                    | the host is killed right after it      |
|------|-------------------------------------------------|----------------------------------------|
| 1    | received with a lease, which counts an attempt  | ready again when the lease has expired |
| 2    | checked: expired, or no attempts left           | the same                               |
| 3    | handed to a process                             | the process dies, too; the same        |
| 4    | the process answers                             | the same: it is handled again          |
| 5    | accepted: deleted; failed: recorded             | a failure is not recorded twice        |
| 6    | failed: released or moved, in one step          | nothing is left to do                  |

The lease is short and renewed, so that a killed host does not keep its messages for long. Messages
that were not begun are returned without counting an attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import assert_never

from postroom import clock
from postroom.domain.queues.app_options import OnPoison
from postroom.domain.queues.apps import App
from postroom.host.processes.process_states import HandedMessage, Process
from postroom.host.processes.scaling import MOST_PREFETCHED, Demand
from postroom.host.runner import Runner, RunnerContext, retry_delay
from postroom.host.wire import Deliver, Failed
from postroom.observability.metrics import HANDLED
from postroom.services.queues.attempts import RESERVED, AttemptFailure, cycle_of, stable_id
from postroom.services.queues.dispositions import Disposition, DispositionResult
from postroom.storage import LeaseLost, QueueMessage, StoreError

log = logging.getLogger(__name__)

MOST_AT_ONCE = 32  # messages of one receive
_SCALE_SECONDS = 0.1
_DECIDE_SECONDS = 0.01
_LOOK_SECONDS = 5.0
_SUSPECT_SECONDS = 5.0  # until a message is received again if too many wait for their own process
_GIVE_UP_SECONDS = 30.0  # if the store is unavailable while we stop: the lease expires anyway
_QUEUES_ASKED = 8  # enough to know whether an application needs another process


class Dispatcher(Runner):
    """An application whose messages the host delivers."""

    def __init__(
        self, app: App, context: RunnerContext, faulted: Callable[[App, str], None]
    ) -> None:
        """`faulted` is called with a queue that must no longer be served."""
        super().__init__(app, context)
        self._faulted = faulted
        self._lease = context.settings.lease
        self._held: dict[tuple[str, str], HandedMessage] = {}  # by queue and id
        self._renewing: dict[HandedMessage, asyncio.Task[None]] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._deciding: set[tuple[str, str]] = set()  # those that may stop their queue
        self._suspects: deque[HandedMessage] = deque()  # wait for a separate process

        self._scale_at = 0.0
        self._failures = 0

    def _has_more(self) -> bool:
        return bool(self._settling or self._suspects)

    # -- the loop ----------------------------------------------------------------------------

    def _tend(self) -> None:
        super()._tend()
        self._renew()
        self._retry_suspects()

    async def _work(self) -> float:
        pause = _LOOK_SECONDS if self.ending else await self._feed()
        return min(pause, self._lease / 6) if self._held else pause

    async def _feed(self) -> float:
        """Deliver messages while there are messages and room."""
        while self.queues and not self.ending:
            self._tend()
            try:
                await self._scale()
                room = self.pool.room()
                if not self._is_worth_it(room):
                    return self.pool.breaker.opens_for(self._clock()) or _SCALE_SECONDS
                await self._take(min(room, MOST_AT_ONCE))
                self._failures = 0
            except StoreError as exc:
                log.warning("%s: cannot receive messages, will retry: %s", self.app.path, exc)
                self._failures += 1
                return retry_delay(self._failures)
        if self.app.min_processes and not self.ending:
            self.pool.scale(Demand())
        return _LOOK_SECONDS

    async def _take(self, limit: int) -> None:
        """Receive up to `limit` messages of the next queue, and deliver them."""
        queue = next(iter(self.queues))
        self.queues[queue] = self.queues.pop(queue)  # next time, the others come first
        if self._is_deciding(queue):
            await asyncio.sleep(_DECIDE_SECONDS)
            return
        receiving = self._context.store.queue(queue).receive(limit, lease=self._lease)
        messages = await self._tending(receiving)
        for message in messages:
            await self._deliver(message)
        if len(messages) < limit:
            self.leave(queue)

    def _is_worth_it(self, room: int) -> bool:
        """Return whether there is room for enough messages: receiving them one by one is slow."""
        if self.pool.has_free_process():
            return room > 0
        return room >= min(MOST_PREFETCHED, MOST_AT_ONCE) // 2

    async def _scale(self) -> None:
        now = self._clock()
        alive = self.pool.alive()
        if not alive:
            self.pool.scale(Demand(ready=1))  # there is at least one
            self._scale_at = now
            return
        if now < self._scale_at or self.pool.has_free_process():
            return
        if len(alive) < self.app.max_processes:
            self.pool.scale(await self._tending(self._demand()))
            took = self._clock() - now  # long queues take long to count
            self._scale_at = now + max(_SCALE_SECONDS, 20 * took)

    async def _demand(self) -> Demand:
        ready, oldest = 0, 0.0
        for name in list(self.queues)[:_QUEUES_ASKED]:
            queue = self._context.store.queue(name)
            info = await queue.info()
            if info.oldest is None:
                continue
            mine = sum(1 for other, _ in self._held if other == name)
            waiting = max(1, info.length - mine)  # including delayed ones
            seen = len(await queue.peek(MOST_AT_ONCE)) if waiting > 1 else 1
            ready += waiting if seen == MOST_AT_ONCE else seen
            oldest = max(oldest, (clock.now() - info.oldest).total_seconds())
        return Demand(ready, oldest, self.pool.in_progress, self.pool.handling_time)

    # -- to a process ------------------------------------------------------------------------

    async def _deliver(self, message: QueueMessage) -> None:
        held = self._held.get((message.queue, message.id))
        if held is not None:
            # Its lease expired before we renewed it, and we received it again: still in progress.
            held.message, held.held_until = message, self._clock() + self._lease
            return
        handed = HandedMessage(message, self._clock() + self._lease)
        self._held[message.queue, message.id] = handed
        if message.queue not in self.queues or self._is_deciding(message.queue):
            self.returned(handed)  # the queue was taken from us in the meantime
            return
        try:
            result = await self._context.queues.check_before_delivery(message, self.app)
            is_suspect = result is None and await self._context.queues.attempts.has_crashed(message)
        except LeaseLost:  # it took too long: another host has it
            del self._held[message.queue, message.id]
        except StoreError as exc:
            log.warning("%s: returning a message: %s", self.app.path, exc)
            self.returned(handed)
        else:
            if result is not None:
                del self._held[message.queue, message.id]
                self._apply_result(message, result)
            elif is_suspect:
                self._suspect(handed)
            elif not self.pool.hand_over(self._delivery_of(handed), handed):
                self.returned(handed)

    # -- quarantine --------------------------------------------------------------------------

    def _suspect(self, handed: HandedMessage) -> None:
        """Try a message in its own process, because one died in its last attempt: no other message
        fails or waits because of it."""
        if len(self._suspects) < MOST_AT_ONCE:
            self._suspects.append(handed)
            self._retry_suspects()
        else:
            self._give_back(handed, delay=_SUSPECT_SECONDS)

    def _retry_suspects(self) -> None:
        if self.ending or self.control.is_paused:
            self._return_suspects()
        while self._suspects and self.pool.can_isolate():
            handed = self._suspects.popleft()
            log.warning(
                "%s: message %s of %s gets its own process, because one has crashed",
                self.app.path,
                stable_id(handed.message),
                handed.message.queue,
            )
            self.pool.isolate(self._delivery_of(handed), handed)

    def _return_suspects(self, queue: str | None = None) -> None:
        """Give back the suspects of a queue, or all."""
        waiting, self._suspects = self._suspects, deque()
        for handed in waiting:
            if queue in (None, handed.message.queue):
                self.returned(handed)
            else:
                self._suspects.append(handed)

    def _delivery_of(self, handed: HandedMessage) -> Callable[[int], Deliver]:
        return lambda number: self._delivery(number, handed.message)

    def _delivery(self, number: int, message: QueueMessage) -> Deliver:
        earlier = cycle_of(message.properties) * (self.app.receive_retry_count + 1)
        properties = {k: v for k, v in message.properties.items() if k not in RESERVED}
        return Deliver(
            number,
            message.body,
            stable_id(message),
            message.queue,
            earlier + message.dequeue_count,
            message.enqueued_at,
            properties,
        )

    # -- results ----------------------------------------------------------------------------------

    def accepted(self, handed: HandedMessage) -> None:
        HANDLED.add(1, self.app.path, "accepted")
        self._settle(handed, self._context.queues.accepted)

    def failed(self, process: Process, handed: HandedMessage, failure: Failed) -> None:
        self._fail(
            handed,
            AttemptFailure(
                failure.error,
                failure.traceback,
                process=self._named(process),
                retry_in=failure.retry_in,
                poison=failure.poison,
            ),
        )

    def died(self, process: Process, handed: HandedMessage, how: str, status: int) -> None:
        error = f"the process ended: {how}"
        self._fail(handed, AttemptFailure(error, exit_status=status, process=self._named(process)))

    def returned(self, handed: HandedMessage) -> None:
        self._give_back(handed)

    def _give_back(self, handed: HandedMessage, delay: float = 0.0) -> None:
        """Release a message without counting an attempt."""

        async def release(message: QueueMessage) -> None:
            queue = self._context.store.queue(message.queue)
            await queue.release(message, delay=delay, count_attempt=False)

        self._settle(handed, release)

    def _fail(self, handed: HandedMessage, failure: AttemptFailure) -> None:
        app = self.app
        HANDLED.add(1, app.path, "failed")

        async def fail(message: QueueMessage) -> None:
            self._apply_result(message, await self._context.queues.failed(message, app, failure))

        if app.on_poison is OnPoison.FAULT:
            self._deciding.add(_key(handed))
        self._settle(handed, fail)

    def _is_deciding(self, queue: str) -> bool:
        """Return whether a message may be about to stop the queue: then nothing is received, or
        that message would get one attempt too many."""
        return any(name == queue for name, _ in self._deciding)

    def _apply_result(self, message: QueueMessage, result: DispositionResult) -> None:
        log.warning(
            "%s: message %s of %s %s: %s",
            self.app.path,
            stable_id(message),
            message.queue,
            describe_result(result),
            result.reason,
        )
        if result.action is Disposition.FAULTED:
            self._faulted(self.app, message.queue)
            self._return_suspects(message.queue)
            self.leave(message.queue)

    def _named(self, process: Process) -> str:
        return f"{self._context.host}, process {process.pid}"

    def _settle(
        self, handed: HandedMessage, act: Callable[[QueueMessage], Awaitable[None]]
    ) -> None:
        task = asyncio.create_task(self._until_settled(handed, act))
        self._settling.add(task)
        task.add_done_callback(self._settled)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._settling.discard(task)
        self._changed.set()
        if not task.cancelled() and task.exception() is not None:
            log.error(
                "a result was not stored; the message will be handled again",
                exc_info=task.exception(),
            )

    async def _until_settled(
        self, handed: HandedMessage, act: Callable[[QueueMessage], Awaitable[None]]
    ) -> None:
        """Make a call with retries, as long as the message is ours."""
        began, failures = self._clock(), 0
        again: QueueMessage | None = None
        try:
            while True:
                if handed in self._renewing:
                    await self._renewing[handed]  # it changes the receipt
                message = handed.message
                try:
                    await act(message)
                    again = None if handed.message is message else handed.message
                    return
                except LeaseLost:
                    if handed.message is not message:
                        continue  # we have received it again
                    log.warning(
                        "%s: message %s was taken over by another host: its late result is ignored",
                        self.app.path,
                        stable_id(message),
                    )
                    return
                except StoreError as exc:
                    if self.ending and self._clock() - began > _GIVE_UP_SECONDS:
                        raise
                    log.warning("%s: cannot store a result, will retry: %s", self.app.path, exc)
                    failures += 1
                    await asyncio.sleep(retry_delay(failures))
        finally:
            self._held.pop(_key(handed), None)
            self._deciding.discard(_key(handed))
            if again is not None:
                # Received again before we knew that it was released.
                await self._deliver(again)

    # -- leases ------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Start renewing leases of which a third has passed."""
        due = self._clock() + self._lease * 2 / 3
        for handed in self._held.values():
            if handed.held_until <= due and handed not in self._renewing:
                self._renewing[handed] = asyncio.create_task(self._renew_one(handed))

    async def _renew_one(self, handed: HandedMessage) -> None:
        message = handed.message
        try:
            asked_at = self._clock()
            queue = self._context.store.queue(message.queue)
            handed.message = await queue.renew(message, lease=self._lease)
            handed.held_until = asked_at + self._lease
        except LeaseLost:
            log.warning(
                "%s: message %s was taken over by another receiver",
                self.app.path,
                stable_id(message),
            )
            if handed.message is message:
                handed.held_until = float("inf")  # nothing to renew: its result will be ignored
        except StoreError as exc:
            log.warning("%s: cannot renew a lease: %s", self.app.path, exc)
            await asyncio.sleep(retry_delay(1))
        finally:
            self._renewing.pop(handed, None)


def _key(handed: HandedMessage) -> tuple[str, str]:
    return handed.message.queue, handed.message.id


def describe_result(result: DispositionResult) -> str:
    """Describe what was done with a message, for the log."""
    match result.action:
        case Disposition.RELEASED:
            later = f" in {result.delay:g} s" if result.delay else ""
            return f"failed and will be retried{later}"
        case Disposition.RETRY:
            return f"failed and waits in {result.queue} for {result.delay:g} s"
        case Disposition.POISONED | Disposition.DEAD_LETTERED:
            return f"is now in {result.queue}"
        case Disposition.DROPPED:
            return "is dropped"
        case Disposition.FAULTED:
            return "stops its queue"
        case _:
            assert_never(result.action)
