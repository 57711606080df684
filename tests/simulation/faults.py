"""What goes wrong in a run, and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from postroom.domain.messages.pages import SEND_QUEUE
from postroom.scheduler import completion
from tests.simulation.loop import Process
from tests.simulation.mail_server import GREYLISTED, HELD, REJECTED
from tests.simulation.people import People
from tests.simulation.times import LEASE

if TYPE_CHECKING:
    from tests.simulation.scenario import Simulation

END = 3.0
"""Seconds of virtual time after which no fault begins."""
_MOST = 6
_MOST_STEPS = 60  # until a process is killed or suspended: it happens at any `await`


class Faults:
    """Faults of processes, machines, the store and the mail server, and people who change their
    minds."""

    def __init__(self, simulation: Simulation, people: People) -> None:
        self._simulation = simulation
        self._choices = simulation.choices
        self._loop = simulation.loop
        completion._LOST_AFTER = timedelta(days=1)
        self._kinds: list[Callable[[], object]] = [
            self._kill,
            self._kill,
            self._kill,
            self._suspend,
            self._suspend,
            self._stop,
            self._lose_store,
            self._lose_mail_server,
            self._set_clock,
            self._lose_machine,
            self._lose_work_items,
            lambda: people.may(people.pause),
            lambda: people.may(people.resume),
            lambda: people.may(people.cancel),
            lambda: people.may(people.edit),
            lambda: people.may(people.unsubscribe),
            lambda: people.may(people.retry_now),
        ]

    def plan(self) -> None:
        """Decide what goes wrong."""
        for _ in range(self._choices.randrange(_MOST + 1)):
            # Most messages are done after a second: that is when faults matter.
            at = min(self._choices.expovariate(1.5), END)
            self._later(at, self._choices.choice(self._kinds))

    def end(self) -> None:
        """Let everything work from now on."""
        self._simulation.tell("the faults have stopped")
        self._simulation.data.is_healthy = True
        self._simulation.server.is_healthy = True
        self._simulation.handler.is_healthy = True
        self._find_store()
        self._find_mail_server()
        for process in self._simulation.running.values():
            process.steps_left = -1

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        self._loop.call_for(self._simulation.administrator, seconds, act)

    # -- processes and machines --------------------------------------------------------------

    def _soon(self, act: Callable[[Process], None]) -> None:
        """Do something to a process after a few of its steps."""
        role = self._choices.choice(list(self._simulation.running))
        process = self._simulation.running[role]
        process.steps_left = self._choices.randrange(_MOST_STEPS)
        process.at_last_step = act

    def _kill(self) -> None:
        self._soon(self._simulation.kill)

    def _suspend(self) -> None:
        seconds = LEASE * self._choices.choice((0.4, 1.2, 3.0))

        def suspend(process: Process) -> None:
            self._simulation.tell(f"{process} is suspended for {seconds:.1f} s")
            self._simulation.judge.had_faults = True
            self._loop.suspend(process, seconds)

        self._soon(suspend)

    def _stop(self) -> None:
        role = self._choices.choice(list(self._simulation.running))
        self._simulation.tell(f"{self._simulation.running[role]} stops in good order")
        self._simulation.stopping[role].set()

    def _set_clock(self) -> None:
        machine, seconds = self._choices.choice(("one", "two")), self._choices.uniform(-5, 5)
        self._simulation.tell(f"the clock of machine {machine} is set by {seconds:+.1f} s")
        offsets = self._simulation.clock.offsets
        offsets[machine] = offsets.get(machine, 0.0) + seconds

    def _lose_machine(self) -> None:
        """Kill all processes of a machine, whose disk is lost, too."""
        machine = self._choices.choice(("one", "two"))
        self._simulation.tell(f"machine {machine} burns down")
        for process in list(self._simulation.running.values()):
            if process.machine == machine:
                self._simulation.kill(process)
        self._simulation.disks[machine].files.clear()

    def _lose_work_items(self) -> None:
        self._simulation.tell("the work items are lost")
        self._simulation.data.queues.get(SEND_QUEUE, {}).clear()
        completion._LOST_AFTER = timedelta(seconds=1)

    # -- servers -----------------------------------------------------------------------------

    def _lose_store(self) -> None:
        seconds = self._choices.choice((0.2, 0.8, 2.0))
        self._simulation.tell(f"the store is lost for {seconds} s")
        self._simulation.data.is_out = True
        self._simulation.judge.had_faults = True
        self._later(seconds, self._find_store)

    def _find_store(self) -> None:
        if self._simulation.data.is_out:
            self._simulation.tell("the store is back")
        self._simulation.data.is_out = False

    def _lose_mail_server(self) -> None:
        reply = self._choices.choice((*HELD.values(), GREYLISTED, REJECTED))
        self._simulation.tell(f"the mail server replies {reply.reply!r}")
        self._simulation.server.outage = reply
        self._later(self._choices.choice((0.3, 1.0, 2.0)), self._find_mail_server)

    def _find_mail_server(self) -> None:
        self._simulation.server.outage = None
