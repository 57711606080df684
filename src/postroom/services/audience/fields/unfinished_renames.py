"""Finishes renames of fields that were interrupted, or had to wait for a message."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from postroom.domain.errors import NoSuch
from postroom.services import entities
from postroom.services.audience.fields.field_changes import FieldChanges
from postroom.services.concurrency import run_periodically
from postroom.storage import KeyRange, NotFound, Store

_EVERY: Final = 30.0  # seconds


class UnfinishedRenames:
    def __init__(self, store: Store, changes: FieldChanges) -> None:
        self._store = store
        self._index = store.table(entities.LIST_INDEX)
        self._changes = changes

    async def run(self, stopping: asyncio.Event) -> None:
        """Finish them every half minute until `stopping`."""
        await run_periodically(
            self._store, "renaming of fields", lambda _: self.finish(), every=_EVERY,
            stopping=stopping,
        )  # fmt: skip

    async def finish(self) -> None:
        """Finish all that can be finished now."""
        async for entry in self._index.scan(KeyRange.only(entities.RENAMING)):
            try:
                await self._changes.finish_rename(entry.row)
            except NoSuch:  # the list was deleted
                with contextlib.suppress(NotFound):
                    await self._index.delete(entry.partition, entry.row)
