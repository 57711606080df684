"""A simulated host: the product's dispatcher and queue service, with workers that only pretend.

The workers die with their host, as the real ones do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random

from postroom import clock
from postroom.domain.queues.apps import App
from postroom.domain.queues.queue_names import poison_queue, retry_queue
from postroom.host.dispatch import Dispatcher
from postroom.host.processes.launcher import WorkerLine, WorkerListener
from postroom.host.runner import HostSettings, RunnerContext
from postroom.host.wire import Accepted, Deliver, Drain, Failed, Ready, ToWorker, WorkerSpec
from postroom.storage import StoreError
from postroom.wiring import Services
from tests.simulation.loop import SimulationLoop, current_process
from tests.simulation.times import LEASE

QUEUE = "orders"
RETRIES, CYCLES = 2, 1
MOST_ATTEMPTS = (RETRIES + 1) * (CYCLES + 1)
APP = App(
    QUEUE,
    handler="orders:handle",
    max_processes=2,
    receive_retry_count=RETRIES,
    max_retry_cycles=CYCLES,
    retry_cycle_delay=timedelta(seconds=0.5),
)
_SETTINGS = HostSettings(lease=LEASE, breaker_pause=1.0)


class Handler:
    """What the application does: it knows how often it was called for each message."""

    def __init__(self, loop: SimulationLoop, choices: Random) -> None:
        self.loop = loop
        self.choices = choices
        self.fault_rate = choices.choice((0.0, 0.3, 0.7))
        self.hopeless: set[str] = set()
        """Messages that always fail."""
        self.calls: Counter[str] = Counter()
        """By the id of the message: an order whose reply was lost is put more than once."""
        self.handled: Counter[str] = Counter()
        self.is_healthy = False
        self.told: Callable[[str], None] = lambda text: None

    def call(self, body: str, identity: str) -> str:
        """Return how a call ends: `accepted`, `failed` or `crashed`."""
        self.calls[identity] += 1
        outcome = "accepted"
        if body in self.hopeless:
            outcome = "failed"
        elif not self.is_healthy and self.choices.random() < self.fault_rate:
            outcome = self.choices.choice(("failed", "failed", "crashed"))
        self.handled[body] += outcome == "accepted"
        self.told(f"{current_process()}: {body}, attempt {self.calls[identity]}: {outcome}")
        return outcome


class _Worker(WorkerLine):
    def __init__(self, listener: WorkerListener, handler: Handler) -> None:
        super().__init__(listener)
        self._handler = handler
        self._is_over = False
        self._busy = 0
        self._is_draining = False

    def send(self, value: ToWorker) -> None:
        if isinstance(value, Deliver):
            self._busy += 1
            delay = self._handler.choices.choice((0.01, 0.1, 2 * LEASE))
            self._handler.loop.call_later(delay, self._handle, value)
        elif isinstance(value, Drain):
            self._is_draining = True
            self._end_if_drained()

    def ready(self) -> None:
        if not self._is_over:
            self._listener.received(Ready())

    def exit(self, status: int) -> None:
        if not self._is_over:
            self._is_over = True
            self._listener.ended(status)

    def _handle(self, value: Deliver) -> None:
        if self._is_over:
            return
        outcome = self._handler.call(value.body, value.id)
        self._busy -= 1
        if outcome == "crashed":
            self.exit(-9)
            return
        failed = Failed(value.number, "it failed (simulated)", "")
        self._listener.received(Accepted(value.number) if outcome == "accepted" else failed)
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._is_draining and not self._busy:
            self._handler.loop.call_soon(self.exit, 0)


class _Launcher:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._workers: dict[int, _Worker] = {}

    async def launch(self, spec: WorkerSpec, listener: WorkerListener) -> None:
        worker = _Worker(listener, self._handler)
        pid = 1000 + len(self._workers)
        self._workers[pid] = worker
        listener.connected(worker)
        listener.launched(pid)
        self._handler.loop.call_later(0.02, worker.ready)

    def kill(self, pid: int) -> None:
        self._handler.loop.call_soon(self._workers[pid].exit, -9)


async def run_host(services: Services, handler: Handler, stopping: asyncio.Event) -> None:
    """Deliver the messages of one queue until `stopping`."""
    store = services.store
    looked = asyncio.Event()
    context = RunnerContext(
        f"host of {current_process()}",
        store,
        services.queues,
        services.events,
        _Launcher(handler),
        _SETTINGS,
        looked.set,
        clock.monotonic,
    )
    dispatcher = Dispatcher(APP, context, lambda app, queue: None)
    retries = retry_queue(QUEUE)
    while not stopping.is_set():
        try:
            ready = await store.wait_for_messages([QUEUE, retries], timeout=0.5)
            if retries in ready:
                await services.queues.start_due_retries(QUEUE)
            if QUEUE in ready:
                dispatcher.activate(QUEUE)
        except StoreError:
            await asyncio.sleep(0.5)
        await asyncio.sleep(0.1)
    await dispatcher.end()


QUEUES = (QUEUE, retry_queue(QUEUE), poison_queue(QUEUE))
