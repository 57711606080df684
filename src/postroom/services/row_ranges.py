"""Reading and removing many rows of one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from postroom.services import entities
from postroom.storage import EVERY_KEY, DeleteMany, KeyRange, NotFound, Table

S = TypeVar("S", bound=msgspec.Struct)

_ROWS: Final = 1000  # the most that one read of the store returns


async def read_whole(
    table: Table, kind: type[S], partition: str, rows: KeyRange = EVERY_KEY, *, most: int
) -> dict[str, S] | None:
    """Return the rows by key, in key order, like `Table.read`; None if there are more than `most`.
    At most one more than that is read."""
    found: dict[str, S] = {}
    start = rows.start
    while True:
        limit = min(_ROWS, most + 1 - len(found))
        answer = await table.read(kind, partition, KeyRange(start, rows.stop), limit=limit)
        found |= answer
        if len(found) > most:
            return None
        if len(answer) < limit:
            return found
        start = entities.behind(next(reversed(answer)))


_BATCH = 100  # the operations of one batch of the store


async def remove_rows(table: Table, partition: str, rows: Sequence[str]) -> None:
    """Remove these rows, in order and in batches.

    If one of them is gone, another process is removing them: the rest is left to it.
    """
    for start in range(0, len(rows), _BATCH):
        try:
            await table.apply([DeleteMany(partition, rows[start : start + _BATCH])])
        except NotFound:
            return
