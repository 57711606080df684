"""Removing rows of one partition, however many they are."""

from __future__ import annotations

from collections.abc import Sequence

from postroom.storage import DeleteMany, NotFound, Table

_BATCH = 100  # the operations of one batch of the store


async def remove_rows(table: Table, partition: str, rows: Sequence[str]) -> None:
    """Remove these rows, in their order and a batch at a time.

    If one of them is gone, somebody else removes them at this moment: the rest is left to them.
    """
    for start in range(0, len(rows), _BATCH):
        try:
            await table.apply([DeleteMany(partition, rows[start : start + _BATCH])])
        except NotFound:
            return
