"""What every application on a host has: processes, queues with messages, and a loop.

The loop runs only from the first queue with messages until the last process has ended.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import msgspec

from postroom import clock
from postroom.domain.queues.apps import App, AppControl
from postroom.host.processes.launcher import WorkerLauncher
from postroom.host.processes.pool import ProcessPool
from postroom.host.processes.process_states import HandedMessage, Process, ProcessState
from postroom.host.processes.scaling import Breaker, BreakerState, Demand
from postroom.host.wire import Failed
from postroom.services.events import EventService, Severity
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.hosts import AppStatus, ProcessStatus
from postroom.storage import Store, StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")
Clock = Callable[[], float]

PAUSED = "paused"
"""The state of an application that an operator has paused."""

_LOOK_SECONDS = 0.5
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)
_TEND_SECONDS = 0.25
_SHORTEST_SECONDS = 0.01  # between two turns of the loop


class HostSettings(msgspec.Struct, frozen=True):
    """Times of a host, in seconds.

    `lease` is how long a killed host keeps its messages, `breaker_pause` how long an application is
    paused after repeated crashes, `refresh` how often everything is read again.
    """

    lease: float = 15.0
    breaker_pause: float = 30.0
    refresh: float = 10.0


class RunnerContext(msgspec.Struct, frozen=True):
    """What runners need from their host."""

    host: str
    store: Store
    queues: QueueService
    events: EventService
    launcher: WorkerLauncher
    settings: HostSettings
    routes_changed: Callable[[], None]
    """Called when a runner has given up a queue."""

    clock: Clock = clock.monotonic


class Runner(ABC):
    """One application on this host."""

    def __init__(self, app: App, context: RunnerContext) -> None:
        self._context = context
        self._clock = context.clock
        breaker = Breaker(context.settings.breaker_pause)
        self.pool = ProcessPool(app, context.launcher, self, breaker=breaker, clock=self._clock)
        self.queues: dict[str, None] = {}
        """Queues that had messages when last read, in the order in which they are served."""

        self.ending = False
        self.control = AppControl()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def app(self) -> App:
        return self.pool.app

    # -- for the supervisor ------------------------------------------------------------------

    def activate(self, queue: str) -> None:
        """Serve a queue that has messages."""
        self.queues.setdefault(queue)
        self.wake()

    def leave(self, queue: str) -> None:
        """Stop serving a queue: it is empty, or belongs to another application."""
        if queue in self.queues:
            del self.queues[queue]
            self._context.routes_changed()

    def update(self, app: App, control: AppControl) -> None:
        """Use a changed configuration: processes are replaced one by one, or stopped."""
        self.configure(app, control)
        self.wake()

    def configure(self, app: App, control: AppControl) -> None:
        self.control = control
        self.pool.configure(app, control)

    def wake(self) -> None:
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Take no more messages, finish those in progress up to the drain limit, and end."""
        self.ending = True
        for queue in list(self.queues):
            self.leave(queue)
        self.pool.end()
        self.wake()
        if self._task is not None:
            await asyncio.wait([self._task])

    # -- the loop ----------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._is_over():
            self._changed.clear()
            try:
                self._tend()
                pause = await self._work()
            except Exception:
                log.exception("%s: error in its loop, which continues in a second", self.app.path)
                pause = 1.0
            due = self.pool.next_due()
            await self._until_changed(pause if due is None else min(pause, due))

    def _is_over(self) -> bool:
        if self.pool.processes or self._has_more():
            return False
        is_kept = self.app.min_processes and not self.control.is_paused
        return self.ending or (not self.queues and not is_kept)

    async def _until_changed(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(_SHORTEST_SECONDS, seconds)):
                await self._changed.wait()

    def _tend(self) -> None:
        """Do what is due now."""
        self.pool.tick()

    async def _tending(self, work: Awaitable[T]) -> T:
        """Wait for the store, and tend the processes while waiting."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.wait([task], timeout=_TEND_SECONDS)
            if not task.done():
                self._tend()
        return task.result()

    @abstractmethod
    async def _work(self) -> float:
        """Do what can be done now; return after how many seconds to check again at the latest."""

    def _has_more(self) -> bool:
        """Return whether there is work left apart from the processes."""
        return False

    # -- called by the pool -----------------------------------------------------------------------

    def changed(self) -> None:
        self._changed.set()

    def breaker_opened(self, how: str, seconds: float) -> None:
        text = (
            f"{self.app.path} is paused after repeated crashes ({how});"
            f" next attempt in {seconds:.0f} s"
        )
        log.error("%s", text)
        self._context.events.note(
            "host", text, severity=Severity.ERROR, subject=f"app:{self.app.path}"
        )

    @abstractmethod
    def accepted(self, handed: HandedMessage) -> None: ...

    @abstractmethod
    def failed(self, process: Process, handed: HandedMessage, failure: Failed) -> None: ...

    @abstractmethod
    def returned(self, handed: HandedMessage) -> None: ...

    @abstractmethod
    def died(self, process: Process, handed: HandedMessage, how: str, status: int) -> None: ...

    # -- status -----------------------------------------------------------------------------------

    def status(self, queues: Mapping[str, str] | None = None) -> AppStatus:
        """Return its status on this host. `queues` has the reasons why queues are not served."""
        now, pool = self._clock(), self.pool
        state, trouble = _state_of(pool), ""
        if self.control.is_paused:
            state = trouble = PAUSED
        elif pool.breaker.state(now) is not BreakerState.CLOSED:
            state = f"breaker {pool.breaker.state(now)}"
            trouble = _breaker_in_words(pool.breaker, now)
        of_queues = dict(sorted((queues or {}).items()))
        return AppStatus(
            path=self.app.path,
            state=state,
            reason="; ".join(dict.fromkeys(filter(None, (trouble, *of_queues.values())))),
            trouble=trouble,
            queues=of_queues,
            processes=tuple(_status_of(process, now) for process in pool.processes),
            starts=pool.starts,
            crashes=pool.crashes,
        )


def _breaker_in_words(breaker: Breaker, now: float) -> str:
    seconds = breaker.opens_for(now)
    if not seconds:
        return f"crashed repeatedly ({breaker.reason}); one message is being tried"
    probe = clock.now() + timedelta(seconds=seconds)
    return f"paused after repeated crashes ({breaker.reason}); next attempt at {probe:%H:%M:%S} UTC"


def _state_of(pool: ProcessPool) -> str:
    states = {process.state for process in pool.processes}
    if any(process.in_progress or process.busy for process in pool.processes):
        return "working"
    for state in (ProcessState.READY, ProcessState.STARTING, ProcessState.DRAINING):
        if state in states:
            return "idle" if state is ProcessState.READY else state.value
    return ProcessState.STOPPED.value


def _status_of(process: Process, now: float) -> ProcessStatus:
    return ProcessStatus(
        pid=process.pid,
        state=process.state.value,
        started_at=clock.now() - timedelta(seconds=now - process.started_at),
        in_progress=len(process.in_progress) or int(process.busy),
        handled=process.handled,
        memory=process.memory(),
    )


def retry_delay(failures: int) -> float:
    """Return the seconds to wait after this many failures in a row."""
    return _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS)) - 1]


class ServeRunner(Runner):
    """An application whose processes receive messages themselves: one of Postroom's own senders.

    The host starts one when there is a message, more while they fall behind, and stops idle ones.
    """

    def __init__(self, app: App, context: RunnerContext) -> None:
        super().__init__(app, context)
        self._is_needed = False
        self._crashes_seen = 0
        self._demanded = Demand()
        self._ask_at = 0.0

    def activate(self, queue: str) -> None:
        self._is_needed = True
        super().activate(queue)

    async def _work(self) -> float:
        if self.ending:
            return _LOOK_SECONDS
        if self.pool.crashes != self._crashes_seen:
            # The next process settles the messages of the crashed one, which are still leased.
            self._crashes_seen = self.pool.crashes
            self._is_needed = True
        demand = Demand(ready=1) if self._is_needed else await self._demand()
        self.pool.scale(demand)
        if self.pool.alive():
            self._is_needed = False
        if not self.pool.processes and not demand.ready:
            for queue in list(self.queues):
                self.leave(queue)
        return _LOOK_SECONDS

    async def _demand(self) -> Demand:
        """Return the demand, perhaps a recent one: long queues take long to count."""
        began = self._clock()
        if began >= self._ask_at or not self.pool.alive():
            self._demanded = await self._tending(self._read_demand())
            self._ask_at = began + max(_LOOK_SECONDS, 20 * (self._clock() - began))
        return self._demanded

    async def _read_demand(self) -> Demand:
        ready, oldest = 0, 0.0
        for queue in list(self.queues):
            try:
                info = await self._context.store.queue(queue).info()
            except StoreError as exc:
                log.warning("%s: cannot read %s: %s", self.app.path, queue, exc)
                continue
            if info.oldest is not None:
                ready += info.length
                oldest = max(oldest, (clock.now() - info.oldest).total_seconds())
        return Demand(ready, oldest)

    # -- never called: the host hands it no messages ----------------------------------------------

    def accepted(self, handed: HandedMessage) -> None: ...

    def failed(self, process: Process, handed: HandedMessage, failure: Failed) -> None: ...

    def returned(self, handed: HandedMessage) -> None: ...

    def died(self, process: Process, handed: HandedMessage, how: str, status: int) -> None: ...
