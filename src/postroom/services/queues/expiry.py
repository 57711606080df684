"""An index of messages with a time to live: they expire even if no application receives them.

| table         | partition | row                  | holds                                         |
|---------------|-----------|----------------------|-----------------------------------------------|
| `queueexpiry` | `expiry`  | time `,` id          | Queue, Id, Tries: how often it was looked for |

A row is written after its message was put, and stays until that time. If a process dies between the
two, the time to live is checked on delivery only.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import msgspec

from postroom.services import entities
from postroom.storage import Entity, KeyRange, NotFound, Store, Value

TABLE = "queueexpiry"
_PARTITION = "expiry"
_BATCH = 100
_TRIES = 8
_FIRST_DELAY = timedelta(seconds=15)


class ExpiredMessage(msgspec.Struct, frozen=True):
    """A message whose time to live has ended."""

    row: str
    queue: str
    id: str
    tries: int


class ExpiryIndex:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def add(self, queue: str, identity: str, expires_at: datetime, tries: int = 0) -> None:
        """Add a message."""
        properties: dict[str, Value] = {"Queue": queue, "Id": identity, "Tries": tries}
        row = f"{_moment(expires_at)},{identity}"
        await self._table.upsert(Entity(_PARTITION, row, properties))

    async def due(self, now: datetime) -> list[ExpiredMessage]:
        """Return some expired messages, oldest first."""
        found = await self._table.query(
            KeyRange.only(_PARTITION), KeyRange(None, _moment(now)), limit=_BATCH
        )
        return [
            ExpiredMessage(
                row=entity.row,
                queue=entities.read(entity, "Queue", str),
                id=entities.read(entity, "Id", str),
                tries=entities.read(entity, "Tries", int),
            )
            for entity in found.entities
        ]

    async def forget(self, due: ExpiredMessage) -> None:
        with contextlib.suppress(NotFound):
            await self._table.delete(_PARTITION, due.row)

    async def look_later(self, due: ExpiredMessage, now: datetime) -> None:
        """Look again later, with growing delays, for a message that may be in progress."""
        if due.tries < _TRIES:
            later = now + _FIRST_DELAY * 2**due.tries
            await self.add(due.queue, due.id, later, due.tries + 1)
        await self.forget(due)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
