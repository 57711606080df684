"""The store of a simulation: requests take their time, fail, or lose their replies."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from postroom.storage import Entity, StoreUnavailable
from tests.simulation.loop import NEXT_STEP, SimulationLoop, current_process
from tests.simulation.memory.data import Connection, MemoryData, QueuedMessage
from tests.simulation.memory.store import MemoryStore
from tests.simulation.times import LEASE

T = TypeVar("T")

_SHORT = (0.001, 0.003, 0.01)
_LONG = (0.1, 0.5)
_STALLED = 3 * LEASE  # a request that arrives after its sender was given up


class SimulatedData(MemoryData):
    """Data that is reached over an unreliable network, until `is_healthy`."""

    def __init__(self, loop: SimulationLoop, choices: Random, epoch: float) -> None:
        super().__init__(lambda: epoch + loop.time())
        self._loop = loop
        self._random = choices.random
        self._choices = choices
        self.is_healthy = False
        self.is_out = False
        self.lost_reply_rate = choices.choice((0.0, 0.0, 0.01, 0.05))
        self.stall_rate = choices.choice((0.0, 0.0, 0.0, 0.02))
        self.late_rate = choices.choice((0.0, 0.1))
        self.repeat_rate = choices.choice((0.0, 0.1))
        self.told: Callable[[str], None] | None = None
        self.watchers: dict[str, Callable[[Entity], None]] = {}
        """Who looks at each row that is written, by table."""

    def fill_from(self, template: MemoryData) -> None:
        """Begin with the same data as another one."""
        self.tables = {
            name: {key: partition.copied() for key, partition in partitions.items()}
            for name, partitions in template.tables.items()
        }
        self.containers = {name: dict(blobs) for name, blobs in template.containers.items()}
        self.start_numbers(10_000)

    async def call(self, store: Connection, act: Callable[[], T]) -> T:
        chance = self._random()
        if chance < 0.6:
            await NEXT_STEP
        else:
            times = _SHORT if chance < 0.98 else _LONG
            await self._loop.delay(times[int(self._random() * len(times))])
        if self.stall_rate and not self.is_healthy and self._random() < self.stall_rate:
            await self._loop.delay(_STALLED)
        if self.is_out:
            if chance < 0.2 or chance > 0.9:
                act()
            raise StoreUnavailable("the store cannot be reached (simulated)")
        result = act()
        if self.lost_reply_rate and not self.is_healthy and self._random() < self.lost_reply_rate:
            raise StoreUnavailable("the reply was lost (simulated)")
        if self._random() < 0.2:
            await NEXT_STEP
        return result

    def delivery_faults(self) -> tuple[int, float]:
        """Return how often a queue message is put, and how much later than asked for."""
        if self.is_healthy:
            return 1, 0.0
        copies = 2 if self.repeat_rate and self._random() < self.repeat_rate else 1
        late = self._random() * 2.0 if self.late_rate and self._random() < self.late_rate else 0.0
        return copies, late

    def queued(self, queue: str, what: str, message: QueuedMessage) -> None:
        if self.told is not None:
            wait = message.visible_at - self.clock()
            self.told(
                f"{current_process()}: {queue} {message.number} {what}: {message.body}"
                f"{f' (for {wait:.1f} s)' if wait > 0 else ''}"
            )

    def written(self, table: str, entity: Entity) -> None:
        watcher = self.watchers.get(table)
        if watcher is not None:
            watcher(entity)


class DirectStore(MemoryStore):
    """The same data, read by somebody who is not part of the simulation: without any wait."""

    async def run(self, act: Callable[[], T]) -> T:
        return act()
