"""Queues that are stopped until somebody deals with a message.

| table        | partition | row               | holds               |
|--------------|-----------|-------------------|---------------------|
| `queuestate` | `fault`   | hash of the queue | Queue, Reason, Time |
"""

from __future__ import annotations

import contextlib
import hashlib
from datetime import UTC, datetime

from postroom.services import entities
from postroom.services.queues.hosts import HostStatusService
from postroom.storage import Entity, KeyRange, NotFound, Store, Value

TABLE = "queuestate"
_PARTITION = "fault"
_LONGEST_REASON = 2_000


class QueueFaults:
    def __init__(self, store: Store, hosts: HostStatusService) -> None:
        self._table = store.table(TABLE)
        self._hosts = hosts

    async def all(self) -> dict[str, str]:
        """Every faulted queue, and why."""
        rows = self._table.scan(KeyRange.only(_PARTITION))
        return {
            entities.read(row, "Queue", str): entities.read(row, "Reason", str)
            async for row in rows
        }

    async def reason(self, queue: str) -> str | None:
        """Why a queue is stopped; None if it is not."""
        found = await self._table.get(_PARTITION, _row(queue))
        return None if found is None else entities.read(found, "Reason", str)

    async def set(self, queue: str, reason: str) -> None:
        properties: dict[str, Value] = {
            "Queue": queue,
            "Reason": reason[:_LONGEST_REASON],
            "Time": datetime.now(UTC),
        }
        await self._table.upsert(Entity(_PARTITION, _row(queue), properties))
        await self._hosts.ring_bells("fault")

    async def clear(self, queue: str) -> bool:
        """Whether it was stopped, which it is no more."""
        cleared = False
        with contextlib.suppress(NotFound):
            await self._table.delete(_PARTITION, _row(queue))
            cleared = True
        await self._hosts.ring_bells("fault cleared")
        return cleared


def _row(queue: str) -> str:
    """Not every name of a queue can be a key; its hash can."""
    return hashlib.sha256(queue.encode()).hexdigest()
