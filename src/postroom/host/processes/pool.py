"""The processes of one application on this host: started, given messages, replaced, stopped.

A pool decides nothing about messages: it reports the result of each to its owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from postroom.domain.queues.apps import App, AppControl
from postroom.host.linux_processes import describe_exit
from postroom.host.processes import scaling
from postroom.host.processes.launcher import CannotLaunch, WorkerLauncher, WorkerLine
from postroom.host.processes.process_states import (
    HandedMessage,
    IsolatedMessage,
    MessageOwner,
    Process,
    ProcessEvent,
    ProcessState,
    spec_of,
)
from postroom.host.processes.scaling import Breaker, BreakerState, Demand, HandlingTime
from postroom.host.wire import (
    Accepted,
    Broken,
    Busy,
    Deliver,
    Drain,
    Failed,
    FromWorker,
    Leaving,
    Ready,
    Recall,
    Returned,
)

log = logging.getLogger(__name__)

RECALL_SECONDS = 0.25
"""How long a message may wait in one process while another could take it."""

_LAUNCH_AGAIN_SECONDS = 1.0


class ProcessPool:
    def __init__(
        self,
        app: App,
        launcher: WorkerLauncher,
        owner: MessageOwner,
        *,
        breaker: Breaker,
        clock: Callable[[], float],
    ) -> None:
        self.app = app
        self.breaker = breaker
        self.processes: list[Process] = []
        self.starts = 0
        self.crashes = 0
        self._launcher = launcher
        self._owner = owner
        self._clock = clock
        self._handling_time = HandlingTime()
        self._lines: dict[Process, WorkerLine] = {}
        self._replacing: dict[Process, Process] = {}  # new → old
        self._launching: set[asyncio.Task[None]] = set()
        self._not_before = 0.0
        self._ending = False
        self._control = AppControl()

    def configure(self, app: App, control: AppControl) -> None:
        """Use this configuration from now on. Processes of an earlier one are replaced one by one;
        while the application is paused, there are none."""
        self.app, self._control = app, control
        if control.is_paused:
            for process in list(self.processes):
                self.drain(process, "it is paused")

    @property
    def may_start(self) -> bool:
        """Return whether processes may be started now."""
        is_stopping = self._ending or self._control.is_paused
        return not is_stopping and self._clock() >= self._not_before

    # -- capacity ---------------------------------------------------------------------------------

    @property
    def in_progress(self) -> int:
        return sum(len(process.in_progress) for process in self.processes)

    @property
    def handling_time(self) -> float | None:
        return self._handling_time.each

    def alive(self) -> list[Process]:
        """Return the processes that take or will take messages."""
        return [each for each in self.processes if each.takes_messages and each.alone is None]

    def room(self) -> int:
        """Return how many messages may be handed over now."""
        now = self._clock()
        if self.breaker.state(now) is BreakerState.PROBING:
            ready = any(process.state is ProcessState.READY for process in self.alive())
            return 1 if ready and not self.in_progress else 0
        return sum(self._room_of(process, now) for process in self.processes)

    def has_free_process(self) -> bool:
        """Return whether a message would begin immediately."""
        return any(
            process.state is ProcessState.READY
            and len(process.in_progress) < process.app.concurrency
            for process in self.alive()
        )

    def _room_of(self, process: Process, now: float) -> int:
        if process.state is not ProcessState.READY or process.alone is not None:
            return 0
        each = self._handling_time.each
        line = scaling.prefetch_limit(None if each is None else max(each, process.slowest(now)))
        return max(0, process.app.concurrency + line - len(process.in_progress))

    # -- messages ----------------------------------------------------------------------------

    def hand_over(self, deliver: Callable[[int], Deliver], handed: HandedMessage) -> bool:
        """Give a message to the best process; return False if there is none."""
        now = self._clock()
        able = [process for process in self.processes if self._room_of(process, now)]
        if not able:
            return False
        # The emptiest process; of idle ones the latest to work, so that the others can be stopped.
        process = min(able, key=lambda each: (len(each.in_progress), -each.idle_since))
        number = process.hand(handed, now)
        self._lines[process].send(deliver(number))
        return True

    def can_isolate(self) -> bool:
        """Return whether a message may get its own process now. Only one has at a time."""
        now = self._clock()
        if not self.may_start or any(process.alone is not None for process in self.processes):
            return False
        match self.breaker.state(now):
            case BreakerState.CLOSED:
                return True
            case BreakerState.PROBING:
                return not self.in_progress
            case BreakerState.OPEN:
                return False

    def isolate(self, deliver: Callable[[int], Deliver], handed: HandedMessage) -> None:
        """Give a message to a new process, which handles nothing else.

        The process does not count towards `max_processes`, nor its crash for the breaker, so that
        other messages do not wait because of it.
        """
        self._start(IsolatedMessage(handed, deliver))

    # -- processes ---------------------------------------------------------------------------

    def scale(self, demand: Demand) -> None:
        """Start the processes that the demand needs."""
        now = self._clock()
        if not self.may_start:
            return
        running = len(self.alive()) - len(self._replacing)
        limits = {"running": running, "least": self.app.min_processes}
        most = self.app.max_processes
        if self.breaker.state(now) is BreakerState.OPEN:
            return
        if self.breaker.state(now) is BreakerState.PROBING:
            most = min(most, 1)
        if self.app.serve:
            wanted = scaling.wanted_serving(demand, most=most, **limits)
        else:
            wanted = scaling.wanted(demand, most=most, concurrency=self.app.concurrency, **limits)
        for _ in range(wanted - running):
            self._start()

    def tick(self) -> None:
        """Do what is due by time: limits, waiting messages, idle and outdated processes."""
        now = self._clock()
        for process in list(self.processes):
            if process.pid and process.must_be_killed(now):
                self._launcher.kill(process.pid)
            if (
                process.state is ProcessState.STARTING
                and now - process.started_at >= scaling.START_SECONDS
            ):
                process.problem = f"not ready {scaling.START_SECONDS:g} s after its start"
                self._launcher.kill(process.pid)
            since = process.waiting_since()
            if since is not None and now - since > RECALL_SECONDS and process.slowest(now) > 0.1:
                self._lines[process].send(Recall())
        for process in scaling.idle_to_stop(self.alive(), self._replacing, self.app, now):
            self.drain(process, "it is idle")
        self._replace_outdated(now)

    def next_due(self) -> float | None:
        """Return the seconds until `tick` may have something to do; None if nothing is due."""
        return scaling.next_due(self.processes, self.alive(), self.app, self._clock())

    def _replace_outdated(self, now: float) -> None:
        """Replace one process at a time; the new one is ready before the old one drains.

        Without a new one only if another process is idle.
        """
        if self._replacing or not self.may_start:
            return
        for process in self.alive():
            why = self._replacement_reason(process, now)
            if not why or process.state is not ProcessState.READY:
                continue
            if process.is_idle and self._can_spare(process, now):
                self.drain(process, why)
            elif self.breaker.state(now) is BreakerState.CLOSED:
                log.info("%s: process %d is replaced: %s", self.app.path, process.pid, why)
                self._replacing[self._start()] = process
                return

    def _replacement_reason(self, process: Process, now: float) -> str:
        return process.replacement_reason(self.app, self._control.restarts, now)

    def _can_spare(self, process: Process, now: float) -> bool:
        alive = self.alive()
        return len(alive) > self.app.min_processes and any(
            other.is_idle and not self._replacement_reason(other, now)
            for other in alive
            if other is not process
        )

    def drain(self, process: Process, why: str = "") -> None:
        """Let a process finish its messages in progress, up to its drain limit, and end."""
        if not process.takes_messages:
            return
        now = self._clock()
        process.happened(ProcessEvent.DRAIN_REQUESTED, now)
        process.kill_at = now + process.app.drain_timeout.total_seconds()
        if why:
            log.info("%s: process %d is stopped: %s", self.app.path, process.pid, why)
        line = self._lines.get(process)
        if line is not None:
            line.send(Drain())
        self._owner.changed()

    def end(self) -> None:
        """Drain all processes, and start no more."""
        self._ending = True
        for process in list(self.processes):
            self.drain(process)

    # -- one process -------------------------------------------------------------------------

    def _start(self, alone: IsolatedMessage | None = None) -> Process:
        process = Process(self.app, self._clock(), alone, self._control.restarts)
        self.processes.append(process)
        self.starts += 1
        task = asyncio.create_task(self._launch(process))
        self._launching.add(task)
        task.add_done_callback(self._launching.discard)
        return process

    async def _launch(self, process: Process) -> None:
        try:
            await self._launcher.launch(spec_of(process.app), _ProcessListener(self, process))
        except Exception as exc:  # any error means that there is no process
            log.error("%s: %s", process.app.path, exc, exc_info=not isinstance(exc, CannotLaunch))
            self._not_before = self._clock() + _LAUNCH_AGAIN_SECONDS
            self._forget(process)

    def connected(self, process: Process, line: WorkerLine) -> None:
        self._lines[process] = line
        if process.state is ProcessState.DRAINING:
            line.send(Drain())

    def lost(self, process: Process) -> None:
        """Kill a process that has closed its connection or sent invalid data: it can neither get
        messages nor answer. A draining process closes it after its last answer: it may continue."""
        if process.state is ProcessState.DRAINING:
            return
        if not process.problem:
            process.problem = "it lost its connection to the host"
        self._launcher.kill(process.pid)

    def _forget(self, process: Process) -> None:
        if process in self.processes:
            self.processes.remove(process)
        if process.alone is not None and not process.has_begun:
            self._owner.returned(process.alone.handed)
        self._lines.pop(process, None)
        self._replacing = {
            new: old for new, old in self._replacing.items() if process not in (new, old)
        }
        self._owner.changed()

    def received(self, process: Process, value: FromWorker) -> None:
        now = self._clock()
        match value:
            case Ready():
                process.happened(ProcessEvent.REPORTED_READY, now)
                self._begin_alone(process, now)
                self._replace(process)
                self._owner.changed()
            case Accepted(number):
                handed = self._answered(process, number, now)
                if handed is not None:
                    self._owner.accepted(handed)
            case Failed(number):
                handed = self._answered(process, number, now)
                if handed is not None:
                    self._owner.failed(process, handed, value)
            case Returned(number):
                handed = process.answered(number, now)
                if handed is not None:
                    self._owner.returned(handed)
            case Busy(busy):
                process.busy = busy
                process.idle_since = now
                if not busy:
                    self.breaker.worked(now)
            case Leaving():
                self.drain(process, "received SIGTERM")
            case Broken(error, traceback):
                process.problem = error
                log.error("%s: %s\n%s", self.app.path, error, traceback.rstrip())

    def _begin_alone(self, process: Process, now: float) -> None:
        if process.alone is not None and process.state is ProcessState.READY:
            number = process.hand(process.alone.handed, now)
            self._lines[process].send(process.alone.deliver(number))

    def _answered(self, process: Process, number: int, now: float) -> HandedMessage | None:
        handed = process.answered(number, now)
        if handed is not None and handed.begun_at is not None:
            process.handled += 1
            self._lines[process].next_message()
            self._handling_time.finished(now - handed.begun_at)
            self.breaker.worked(now)
            self._owner.changed()
            if process.alone is not None:
                self.drain(process)
        return handed

    def _replace(self, new: Process) -> None:
        old = self._replacing.pop(new, None)
        if old is not None:
            if old.is_idle:
                new.idle_since = old.idle_since  # a replacement does not delay the idle timeout
            self.drain(old)

    def ended(self, process: Process, status: int) -> None:
        now = self._clock()
        process.happened(process.ending(status), now)
        how = process.killed_for or process.problem or describe_exit(status)
        if process.state is ProcessState.CRASHED:
            self.crashes += 1
            if not process.in_progress or process.alone is None or self.breaker.is_tripped:
                self.breaker.crashed(now, how)
            log.error("%s: process %d crashed: %s", self.app.path, process.pid, how)
            if self.breaker.state(now) is BreakerState.OPEN:
                self._owner.breaker_opened(how, self.breaker.opens_for(now))
        elif process.is_cut_short and process.in_progress:
            log.warning(
                "%s: process %d was %s; its messages are returned",
                self.app.path,
                process.pid,
                how,
            )
        failing = process.messages_to_fail(now)
        for handed in process.in_progress.values():
            if handed in failing:
                self._owner.died(process, handed, how, status)
            else:
                self._owner.returned(handed)
        process.in_progress.clear()
        self._forget(process)


class _ProcessListener:
    """Passes events of one process to its pool."""

    def __init__(self, pool: ProcessPool, process: Process) -> None:
        self._pool = pool
        self._process = process

    def connected(self, line: WorkerLine) -> None:
        self._pool.connected(self._process, line)

    def launched(self, pid: int) -> None:
        self._process.pid = pid

    def received(self, value: FromWorker) -> None:
        self._pool.received(self._process, value)

    def lost(self) -> None:
        self._pool.lost(self._process)

    def ended(self, status: int) -> None:
        self._pool.ended(self._process, status)
