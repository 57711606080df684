"""One run: a message to a handful of recipients, with faults that follow from a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

from postroom import clock
from postroom.scheduler import Scheduler
from postroom.sender import Sender, SenderSettings
from postroom.sender.confirmations import Confirmations, ConfirmationSettings
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.wiring import Services
from tests.simulation import faults
from tests.simulation.disk import Disk, Files, installed
from tests.simulation.environment import EPOCH, SimulatedClock, logged, predictable
from tests.simulation.host import Handler, run_host
from tests.simulation.judge import Judge
from tests.simulation.loop import Process, SimulationLoop, current_process
from tests.simulation.mail_server import MailServer, SimulatedTransport
from tests.simulation.memory.store import MemoryStore
from tests.simulation.people import People
from tests.simulation.store import SimulatedData
from tests.simulation.template import address_of, template
from tests.simulation.times import LEASE

_BASE_URL = "https://lists.example.org"
_RETRY = RetryPlan(timedelta(seconds=0.5), timedelta(seconds=1), timedelta(hours=1))
_RESTART_SECONDS = (0.05, 0.3, 1.5)


class Simulation:
    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self._trace = trace
        self.is_traced = trace is not None
        self.choices = choices = Random(seed)
        # It has no sockets, pipes and signals, which nobody needs here.
        self.loop = SimulationLoop(Random(choices.random()))  # type: ignore[abstract]
        self.clock = SimulatedClock(self.loop)
        self.data = SimulatedData(self.loop, Random(choices.random()), EPOCH.timestamp())
        self.recipients = choices.choice((1, 2, 3, 4, 5, 7))
        self.data.fill_from(template(self.recipients))
        self._store = MemoryStore(self.data)  # for all: it keeps nothing but the data
        self.subscribers = {address_of(number) for number in range(self.recipients)}
        self.files = Files()
        self.disks = {machine: Disk() for machine in ("one", "two")}
        self.administrator = Process("administrator", "one")
        self.server = MailServer(
            self.loop, Random(choices.random()), Process("mail server", "elsewhere")
        )
        self.handler = Handler(self.loop, Random(choices.random()))
        self.roles: dict[str, Callable[[asyncio.Event], Coroutine[Any, Any, None]]] = {}
        self.running: dict[str, Process] = {}
        self.stopping: dict[str, asyncio.Event] = {}
        self._starts = 0
        # Of its own: the other choices of a seed stay as they are.
        self.canary = Random(seed).choice(("30%,0s", "50%,500ms")) if seed % 4 == 1 else ""
        self._plan()
        self.judge = Judge(self)
        self.data.watchers = {"messagepage": self.judge.page_written}
        self.server.handed_over = self.judge.handed_over
        if trace is not None:
            self.server.told = self.handler.told = self.data.told = self.tell

    def _plan(self) -> None:
        """Decide who takes part. Not everybody in every run: that would cost too much time."""
        choices = self.choices
        self.in_doubt = choices.choice((WhenInDoubt.RESEND, WhenInDoubt.RESEND, WhenInDoubt.HOLD))
        self._connections = choices.choice((1, 2, 3))
        others = choices.random()
        self.sign_ups = _named("new{}@example.org", choices.choice((1, 2)) if others > 0.8 else 0)
        self.orders = _named("order {}", choices.choice((1, 3)) if others < 0.1 else 0)
        self.handler.hopeless = {each for each in self.orders if choices.random() < 0.2}
        self._add("scheduler", choices.choice((1, 1, 2)), self._schedule)
        self._add("sender", choices.choice((1, 2, 2, 2, 2, 3)), self._send)
        self._add("confirmations", 1 if self.sign_ups else 0, self._confirm)
        self._add("host", choices.choice((1, 2)) if self.orders else 0, self._host)

    def _add(
        self, name: str, count: int, run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]
    ) -> None:
        for number in range(1, count + 1):
            self.roles[f"{name} {number}"] = run

    def tell(self, text: str) -> None:
        """Add a line to the trace."""
        if self._trace is not None:
            self._trace(f"{self.loop.time():9.3f}  {text}")

    def run(self) -> None:
        """Run until everything has come to its end. `Violation` if a promise was broken."""
        random.seed(self.seed)
        with self._installed():
            try:
                self.loop.run(self.loop.start(self.administrator, self._administer()))
            finally:
                self.loop.dispose()
        self.judge.check_errors()

    @contextmanager
    def _installed(self) -> Iterator[None]:
        with (
            clock.replaced_by(self.clock),
            installed(self.files),
            predictable(Random(self.seed)),
            logged(self.tell, self.judge.unexpected, is_traced=self.is_traced),
        ):
            yield

    async def _administer(self) -> None:
        people = People(self, self._services())
        going_wrong = faults.Faults(self, people)
        going_wrong.plan()
        for role in self.roles:
            self._start(role)
        await people.begin()
        while self.loop.time() < faults.END and not self.judge.is_idle():
            await self.loop.delay(0.25)
        going_wrong.end()
        await people.finish()
        await self.judge.check_end()

    # -- processes ---------------------------------------------------------------------------

    def _start(self, role: str) -> None:
        self._starts += 1
        machine = "two" if role.endswith("2") else "one"
        process = Process(f"{role}.{self._starts}", machine)
        stopping = asyncio.Event()
        self.running[role], self.stopping[role] = process, stopping
        self.tell(f"{process} starts on machine {machine}")
        main = self.loop.start(process, self.roles[role](stopping))

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.judge.unexpected(f"{process} ended with an error", error)
            if self.running.get(role) is process:
                self.files.end(process)
                self._start_later(role, process)

        main.add_done_callback(ended)

    def kill(self, process: Process) -> None:
        """Kill a process, and start it again after a while."""
        for role, running in self.running.items():
            if running is process and process.is_alive:
                self.tell(f"{process} is killed")
                self.judge.had_faults = True
                self.loop.kill(process)
                self.files.end(process)
                self._start_later(role, process)
                return

    def _start_later(self, role: str, process: Process) -> None:
        def start() -> None:
            if self.running[role] is process:
                self._start(role)

        self.loop.call_for(self.administrator, self.choices.choice(_RESTART_SECONDS), start)

    def _services(self) -> Services:
        return Services(self._store)

    def _transport(self) -> SimulatedTransport:
        return SimulatedTransport(self.server, self.loop, self._connections)

    async def _schedule(self, stopping: asyncio.Event) -> None:
        await Scheduler(self._services(), lease_seconds=LEASE).run(stopping)

    async def _send(self, stopping: asyncio.Event) -> None:
        settings = SenderSettings(
            _BASE_URL,
            self.disks[current_process().machine].folder,  # type: ignore[arg-type]
            in_doubt=self.in_doubt,
            retry=_RETRY,
            lease=LEASE,
            claim=2,
            most_pages=4,
        )
        await Sender(self._services(), self._transport(), settings).run(stopping)

    async def _confirm(self, stopping: asyncio.Event) -> None:
        settings = ConfirmationSettings(_BASE_URL, _RETRY, lease=LEASE, most_items=2)
        await Confirmations(self._services(), self._transport(), settings).run(stopping)

    async def _host(self, stopping: asyncio.Event) -> None:
        await run_host(self._services(), self.handler, stopping)


def _named(name: str, count: int) -> list[str]:
    return [name.format(number) for number in range(count)]
