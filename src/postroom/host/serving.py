"""Applications whose processes receive messages themselves: Postroom's own senders.

The host starts one when there is a message, more while they fall behind, and stops idle ones.
"""

from __future__ import annotations

import logging

from postroom import clock
from postroom.domain.queues.apps import App
from postroom.host.processes.process_states import Handed, Process
from postroom.host.processes.scaling import Demand
from postroom.host.runner import Runner, RunnerContext
from postroom.host.wire import Failed
from postroom.storage import StoreError

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


class ServeRunner(Runner):
    """An application that serves its queue itself."""

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
            self._demanded = await self._tending(self._asked_demand())
            self._ask_at = began + max(_LOOK_SECONDS, 20 * (self._clock() - began))
        return self._demanded

    async def _asked_demand(self) -> Demand:
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

    def accepted(self, handed: Handed) -> None: ...

    def failed(self, process: Process, handed: Handed, failure: Failed) -> None: ...

    def returned(self, handed: Handed) -> None: ...

    def died(self, process: Process, handed: Handed, how: str, status: int) -> None: ...
