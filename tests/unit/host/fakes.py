"""A launcher without processes, a clock that is set, and an owner that remembers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from postroom.domain.queues.apps import App
from postroom.host.processes.launcher import CannotLaunch, WorkerLine, WorkerListener
from postroom.host.processes.pool import ProcessPool
from postroom.host.processes.process_states import HandedMessage, Process
from postroom.host.processes.scaling import Breaker
from postroom.host.wire import (
    Accepted,
    Deliver,
    Drain,
    Failed,
    FromWorker,
    Ready,
    Recall,
    ToWorker,
    WorkerSpec,
)


class FakeWorker(WorkerLine):
    """What a pool thinks is the line to a process; the test plays the process."""

    def __init__(self, spec: WorkerSpec, listener: WorkerListener, pid: int) -> None:
        super().__init__(listener)
        self.spec = spec
        self.pid = pid
        self.heard: list[ToWorker] = []

    def send(self, value: ToWorker) -> None:
        self.heard.append(value)

    def answer(self, value: FromWorker) -> None:
        self._listener.received(value)

    def accept_all(self) -> None:
        for value in [each for each in self.heard if isinstance(each, Deliver)]:
            self.answer(Accepted(value.number))
        self.heard.clear()

    def lose(self) -> None:
        self._listener.lost()

    def die(self, status: int) -> None:
        self._listener.ended(status)

    def is_draining(self) -> bool:
        return any(isinstance(each, Drain) for each in self.heard)

    @property
    def recalls(self) -> int:
        return sum(isinstance(each, Recall) for each in self.heard)


class FakeLauncher:
    def __init__(self) -> None:
        self.workers: list[FakeWorker] = []
        self.killed: list[int] = []
        self.refuses = False
        self.error: Exception | None = None

    async def launch(self, spec: WorkerSpec, listener: WorkerListener) -> None:
        if self.refuses:
            raise CannotLaunch("no process could be started: out of memory")
        if self.error is not None:
            raise self.error
        worker = FakeWorker(spec, listener, 1000 + len(self.workers))
        listener.connected(worker)
        listener.launched(worker.pid)
        self.workers.append(worker)

    def kill(self, pid: int) -> None:
        self.killed.append(pid)


class Remembering:
    """An owner of messages that only remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[str, HandedMessage]] = []

    def accepted(self, handed: HandedMessage) -> None:
        self.said.append(("accepted", handed))

    def failed(self, process: Process, handed: HandedMessage, failure: Failed) -> None:
        self.said.append(("failed", handed))

    def returned(self, handed: HandedMessage) -> None:
        self.said.append(("returned", handed))

    def died(self, process: Process, handed: HandedMessage, how: str, status: int) -> None:
        self.said.append((f"died: {how}", handed))

    def changed(self) -> None:
        return

    def breaker_opened(self, how: str, seconds: float) -> None:
        return


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_pool(
    app: App, *, pause: float = 30.0
) -> tuple[ProcessPool, FakeLauncher, Remembering, Clock]:
    launcher, owner, clock = FakeLauncher(), Remembering(), Clock()
    pool = ProcessPool(
        app,
        launcher,
        owner,
        breaker=Breaker(pause),
        clock=clock,
    )
    return pool, launcher, owner, clock


def ready(worker: FakeWorker) -> FakeWorker:
    worker.answer(Ready())
    return worker


def deliver(body: str) -> Callable[[int], Deliver]:
    return lambda number: Deliver(number, body, body, "q", 1, datetime.now(UTC), {})
