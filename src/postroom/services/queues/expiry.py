"""Which queue messages have a time to live, so that it ends also if no application takes them.

| table         | partition | row                  | holds                                         |
|---------------|-----------|----------------------|-----------------------------------------------|
| `queueexpiry` | `expiry`  | moment `,` id        | Queue, Id, Tries: how often it was looked for |

A row is written after its message was put, and stays until that moment, whatever becomes of the
message. If a process dies between the two, the message's time is checked on delivery only.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import msgspec

from postroom.services import entities
from postroom.storage import Entity, KeyRange, NotFound, Store, Value

TABLE = "queueexpiry"
_PARTITION = "expiry"
_AT_ONCE = 100
_TRIES = 8
_FIRST_PAUSE = timedelta(seconds=15)


class Due(msgspec.Struct, frozen=True):
    """A message whose time to live has ended."""

    row: str
    queue: str
    id: str
    tries: int


class ExpiryIndex:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def add(self, queue: str, identity: str, expires_at: datetime, tries: int = 0) -> None:
        """Note when a message ends."""
        properties: dict[str, Value] = {"Queue": queue, "Id": identity, "Tries": tries}
        row = f"{_moment(expires_at)},{identity}"
        await self._table.upsert(Entity(_PARTITION, row, properties))

    async def due(self, now: datetime) -> list[Due]:
        """Return some messages whose time has ended, the oldest first."""
        found = await self._table.query(
            KeyRange.only(_PARTITION), KeyRange(None, _moment(now)), limit=_AT_ONCE
        )
        return [
            Due(
                row=entity.row,
                queue=entities.read(entity, "Queue", str),
                id=entities.read(entity, "Id", str),
                tries=entities.read(entity, "Tries", int),
            )
            for entity in found.entities
        ]

    async def forget(self, due: Due) -> None:
        with contextlib.suppress(NotFound):
            await self._table.delete(_PARTITION, due.row)

    async def look_later(self, due: Due, now: datetime) -> None:
        """Somebody may have the message in hand: look for it again, less and less often."""
        if due.tries < _TRIES:
            later = now + _FIRST_PAUSE * 2**due.tries
            await self.add(due.queue, due.id, later, due.tries + 1)
        await self.forget(due)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
