"""Limits on emails per second, kept in the store: shared by all senders, surviving restarts.

| table      | partition | row        | holds                                    |
|------------|-----------|------------|------------------------------------------|
| `throttle` | `overall` | `overall`  | UsedUpAt                                 |
| `throttle` | `domain`  | the domain | UsedUpAt, QueueEndAt (see `email_rates.py`)|

Rows are changed under their ETags, so two senders never get the same slot. Slots are reserved for
many emails with one write, shortly before they are used: a crash wastes about a second of them.
Clocks that differ between machines also waste slots, but the limit holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from postroom.domain.errors import Overtaken
from postroom.services import entities
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import (
    Entity,
    Insert,
    Operation,
    Replace,
    Store,
    StoreUnavailable,
    Value,
)

TABLE: Final = "throttle"
OVERALL: Final = "overall"
DOMAIN: Final = "domain"

# Each failure is another sender's success; this many in a row mean that something else is wrong.
_MOST_ATTEMPTS = 500

T = TypeVar("T")
Clock = Callable[[], float]
"""Seconds since 1970: moments in the store must mean the same to all senders."""


class Moments(msgspec.Struct, frozen=True):
    """The state of a limit, in seconds since 1970; 0 if there is none yet."""

    used_up: float = 0.0
    queue_end: float = 0.0


Found = Mapping[str, Moments]


class StoredLimits:
    """The limits of one partition, one per row."""

    def __init__(self, store: Store, partition: str) -> None:
        self._table = store.table(TABLE)
        self._partition = partition
        self._turn = asyncio.Lock()  # tasks of this process must not overtake each other

    async def change(self, names: Sequence[str], decide: Callable[[Found], tuple[Found, T]]) -> T:
        """Change up to 100 limits atomically: `decide` gets the current moments and returns the new
        ones and a result. It is called again if another sender was faster.
        """

        async def attempt() -> T:
            rows = await asyncio.gather(*(self._table.get(self._partition, name) for name in names))
            found = dict(zip(names, rows, strict=True))
            changed, result = decide({name: _moments(row) for name, row in found.items()})
            await self._table.apply(
                [self._write(name, changed[name], found[name]) for name in names]
            )
            return result

        limits = ", ".join(names)
        async with self._turn:
            try:
                return await retry_on_conflict(attempt, "limits", limits, most=_MOST_ATTEMPTS)
            except Overtaken as exc:
                raise StoreUnavailable(f"the limits {limits} could not be changed") from exc

    def _write(self, name: str, moments: Moments, before: Entity | None) -> Operation:
        properties: dict[str, Value] = {"UsedUpAt": _moment(moments.used_up)}
        if moments.queue_end:
            properties["QueueEndAt"] = _moment(moments.queue_end)
        entity = Entity(self._partition, name, properties)
        return Insert(entity) if before is None else Replace(entity, before.etag)


def _moments(row: Entity | None) -> Moments:
    if row is None:
        return Moments()
    end = entities.read_optional(row, "QueueEndAt", datetime)
    return Moments(
        entities.read(row, "UsedUpAt", datetime).timestamp(),
        0.0 if end is None else end.timestamp(),
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
