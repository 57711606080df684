"""What a pool of processes needs of others: somebody who starts them, and an owner of messages."""

from __future__ import annotations

from typing import Protocol

from postroom.host.processes.launcher import Listener
from postroom.host.processes.process_states import Handed, Process
from postroom.host.wire import Failed, WorkerSpec


class Launching(Protocol):
    """What a pool needs of a launcher."""

    async def launch(self, spec: WorkerSpec, listener: Listener) -> None: ...

    def kill(self, pid: int) -> None: ...


class Owner(Protocol):
    """Who gave the messages, and wants to know what became of them."""

    def accepted(self, handed: Handed) -> None: ...

    def failed(self, process: Process, handed: Handed, failure: Failed) -> None: ...

    def returned(self, handed: Handed) -> None:
        """No fault of its own: no attempt."""

    def died(self, process: Process, handed: Handed, how: str, status: int) -> None:
        """Its process ended while it worked on it: how, in words and as in `Exited`."""

    def changed(self) -> None:
        """There may be room, or a process less."""

    def breaker_opened(self, how: str, seconds: float) -> None:
        """Its processes crash again and again: no new one for some seconds."""
