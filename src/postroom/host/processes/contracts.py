"""What a pool of processes needs: a launcher, and an owner of messages."""

from __future__ import annotations

from typing import Protocol

from postroom.host.processes.launcher import WorkerListener
from postroom.host.processes.process_states import Handed, Process
from postroom.host.wire import Failed, WorkerSpec


class WorkerLauncher(Protocol):
    """Starts and kills workers."""

    async def launch(self, spec: WorkerSpec, listener: WorkerListener) -> None: ...

    def kill(self, pid: int) -> None: ...


class MessageOwner(Protocol):
    """Gets the results of messages that it has handed to a pool."""

    def accepted(self, handed: Handed) -> None: ...

    def failed(self, process: Process, handed: Handed, failure: Failed) -> None: ...

    def returned(self, handed: Handed) -> None:
        """The message was not tried; this does not count as an attempt."""

    def died(self, process: Process, handed: Handed, how: str, status: int) -> None:
        """The process ended while it handled the message; `status` as in `Exited`."""

    def changed(self) -> None:
        """There may be room for messages, or one process less."""

    def breaker_opened(self, how: str, seconds: float) -> None:
        """After repeated crashes no process is started for some seconds."""
