"""The states of a worker process as one table, and what the host knows about a process.

                   ┌───────────────────────┐
                   │                       ▼
    starting ──▶ ready ──▶ draining ──▶ stopped
        │          │           │
        └──────────┴───────────┴──▶ crashed

Everything that changes the state of a process is in this file.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from postroom.domain.queues.apps import App
from postroom.host.wire import Deliver, Failed, WorkerSpec
from postroom.storage import QueueMessage


class ProcessState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    CRASHED = "crashed"


class ProcessEvent(StrEnum):
    REPORTED_READY = "reported that it is ready"
    DRAIN_REQUESTED = "was asked to drain, or reported that it drains"
    ENDED_WELL = "ended with status 0"
    ENDED_BADLY = "ended with another status, or was killed"
    KILLED_BY_US = "was killed after its drain limit or handler timeout"


TRANSITIONS: Mapping[tuple[ProcessState, ProcessEvent], ProcessState] = {
    (ProcessState.STARTING, ProcessEvent.REPORTED_READY): ProcessState.READY,
    (ProcessState.STARTING, ProcessEvent.DRAIN_REQUESTED): ProcessState.DRAINING,
    (ProcessState.STARTING, ProcessEvent.ENDED_WELL): ProcessState.CRASHED,
    (ProcessState.STARTING, ProcessEvent.ENDED_BADLY): ProcessState.CRASHED,
    (ProcessState.READY, ProcessEvent.DRAIN_REQUESTED): ProcessState.DRAINING,
    (ProcessState.READY, ProcessEvent.ENDED_WELL): ProcessState.CRASHED,  # unexpectedly
    (ProcessState.READY, ProcessEvent.ENDED_BADLY): ProcessState.CRASHED,
    (ProcessState.READY, ProcessEvent.KILLED_BY_US): ProcessState.STOPPED,
    (
        ProcessState.DRAINING,
        ProcessEvent.REPORTED_READY,
    ): ProcessState.DRAINING,  # requested while it started
    (ProcessState.DRAINING, ProcessEvent.DRAIN_REQUESTED): ProcessState.DRAINING,
    (ProcessState.DRAINING, ProcessEvent.ENDED_WELL): ProcessState.STOPPED,
    (ProcessState.DRAINING, ProcessEvent.ENDED_BADLY): ProcessState.CRASHED,
    (ProcessState.DRAINING, ProcessEvent.KILLED_BY_US): ProcessState.STOPPED,
}
"""All other transitions are impossible."""

OVER = (ProcessState.STOPPED, ProcessState.CRASHED)


class HandedMessage(msgspec.Struct, eq=False):
    """A message that the host has received. Times by the host's clock.

    `message` has the latest receipt. `begun_at` is None while it waits in its process.
    """

    message: QueueMessage
    held_until: float
    at: float = 0.0
    begun_at: float | None = None

    def taken(self, now: float) -> float:
        """Return for how long it has been in progress."""
        return 0.0 if self.begun_at is None else now - self.begun_at


class IsolatedMessage(msgspec.Struct, eq=False):
    """A message that gets its own process, because one died in its last attempt."""

    handed: HandedMessage
    deliver: Callable[[int], Deliver]


class Process:
    """One worker process, as the host sees it."""

    def __init__(
        self, app: App, now: float, alone: IsolatedMessage | None = None, restarts: int = 0
    ) -> None:
        """`alone` is the only message of this process, if set; `restarts` counts the requests for
        new processes when it was started."""
        self.app = app
        self.alone = alone
        self.restarts = restarts
        self.state = ProcessState.STARTING
        self.pid = 0
        self.started_at = now
        self.changed_at = now
        self.in_progress: dict[int, HandedMessage] = {}
        self.handled = 0
        self.busy = False
        self.kill_at: float | None = None
        self.killed_for = ""
        self.is_cut_short = False
        self.problem = ""
        self.idle_since = now
        self._line: deque[int] = deque()
        self._numbers = 0

    def happened(self, event: ProcessEvent, now: float) -> None:
        self.state = TRANSITIONS[self.state, event]
        self.changed_at = now
        if event is ProcessEvent.REPORTED_READY:
            self.idle_since = now

    def ending(self, status: int) -> ProcessEvent:
        """Return the event of an exit with this status, as in `Exited`."""
        if status == 0:
            return ProcessEvent.ENDED_WELL
        return ProcessEvent.KILLED_BY_US if self.killed_for else ProcessEvent.ENDED_BADLY

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def takes_messages(self) -> bool:
        """Return whether it takes messages, now or once it has started."""
        return self.state in (ProcessState.STARTING, ProcessState.READY)

    @property
    def is_idle(self) -> bool:
        """Return whether it is ready and has no messages."""
        return self.state is ProcessState.READY and not self.in_progress and not self.busy

    # -- messages ----------------------------------------------------------------------------

    def hand(self, handed: HandedMessage, now: float) -> int:
        """Add a message; return its number."""
        self._numbers += 1
        handed.at = now
        begins = len(self.in_progress) < self.app.concurrency
        self.in_progress[self._numbers] = handed
        if begins:
            handed.begun_at = now
        else:
            self._line.append(self._numbers)
        return self._numbers

    def answered(self, number: int, now: float) -> HandedMessage | None:
        """Remove a message that was answered, and mark the next waiting one as begun.

        A worker begins messages in order, and answers one before it begins the next.
        """
        handed = self.in_progress.pop(number, None)
        if handed is None:
            return None
        if handed.begun_at is None:
            self._line.remove(number)  # given back
        elif self._line:
            self.in_progress[self._line.popleft()].begun_at = now
        if not self.in_progress:
            self.idle_since = now
        return handed

    @property
    def has_begun(self) -> bool:
        """Return whether it has ever had a message."""
        return self._numbers > 0

    def waiting_since(self) -> float | None:
        """Return since when the first waiting message waits."""
        return self.in_progress[self._line[0]].at if self._line else None

    def slowest(self, now: float) -> float:
        """Return for how long its slowest message has been in progress."""
        return max((each.taken(now) for each in self.in_progress.values()), default=0.0)

    # -- limits -----------------------------------------------------------------------------------

    def over_time_in(self, now: float) -> float | None:
        """Return the seconds until the handler timeout of a message; None if there is none."""
        if self.app.handler_timeout is None or not self.in_progress:
            return None
        return self.app.handler_timeout.total_seconds() - self.slowest(now)

    def must_be_killed(self, now: float) -> bool:
        """Return whether a limit has passed, and set `killed_for` to the reason."""
        if self.killed_for:
            return True
        if any(self._is_late(each, now) for each in self.in_progress.values()):
            self.killed_for = "killed: a message took longer than handler_timeout allows"
        elif self.kill_at is not None and now >= self.kill_at:
            limit = self.app.drain_timeout.total_seconds()
            self.killed_for = f"killed {limit:g} s after it was told to stop"
            self.is_cut_short = True
        return bool(self.killed_for)

    def messages_to_fail(self, now: float) -> list[HandedMessage]:
        """Return the messages for which the end of the process counts as a failed attempt: those
        that had begun; only the late ones, if there are any; none after the drain limit."""
        if self.is_cut_short:
            return []
        begun = [each for each in self.in_progress.values() if each.begun_at is not None]
        return [each for each in begun if self._is_late(each, now)] or begun

    def _is_late(self, handed: HandedMessage, now: float) -> bool:
        limit = self.app.handler_timeout
        return limit is not None and handed.taken(now) >= limit.total_seconds()

    def idle_for(self, now: float) -> float:
        return now - self.idle_since if self.is_idle else 0.0

    def replacement_reason(self, app: App, restarts: int, now: float) -> str:
        """Return why it should be replaced; empty if it should not."""
        if self.restarts != restarts:
            return "a restart was requested"
        if self.app is not app and self.app.revision != app.revision:
            return "its configuration has changed"
        if app.recycle_after and now - self.started_at >= app.recycle_after.total_seconds():
            return "it has reached its lifetime"
        if app.recycle_messages and self.handled >= app.recycle_messages:
            return f"it has handled {self.handled:,} messages"
        if app.recycle_memory and (memory := self.memory()) > app.recycle_memory:
            return f"it uses {memory / 1_000_000:,.0f} MB"
        return ""

    def memory(self) -> int:
        """Return its resident memory in bytes; 0 if unknown."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * _PAGE


class MessageOwner(Protocol):
    """Gets the results of messages that it has handed to a pool."""

    def accepted(self, handed: HandedMessage) -> None: ...

    def failed(self, process: Process, handed: HandedMessage, failure: Failed) -> None: ...

    def returned(self, handed: HandedMessage) -> None:
        """The message was not tried; this does not count as an attempt."""

    def died(self, process: Process, handed: HandedMessage, how: str, status: int) -> None:
        """The process ended while it handled the message; `status` as in `Exited`."""

    def changed(self) -> None:
        """There may be room for messages, or one process less."""

    def breaker_opened(self, how: str, seconds: float) -> None:
        """After repeated crashes no process is started for some seconds."""


def spec_of(app: App) -> WorkerSpec:
    """Return the specification of a worker of this application."""
    cpu = app.cpu_limit
    return WorkerSpec(
        path=app.path,
        folder=app.folder,
        handler=app.handler,
        command=app.command,
        serve=app.serve,
        concurrency=app.concurrency,
        environment=app.environment,
        user=app.user,
        memory_limit=app.memory_limit,
        cpu_limit=None if cpu is None else math.ceil(cpu.total_seconds()),
        open_files=app.open_files,
    )


_PAGE = os.sysconf("SC_PAGE_SIZE")
