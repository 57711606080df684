"""Whether the store can be written to, found out by writing.

| table       | partition | row     | holds                           |
|-------------|-----------|---------|---------------------------------|
| `storeinfo` | `store`   | `probe` | what was written last: At, Data |
"""

from __future__ import annotations

import asyncio
import os

from postroom import clock
from postroom.storage import AccessDenied, Entity, Store, StoreError, StoreFull, StoreMissing

TABLE = "storeinfo"
PARTITION = "store"
_PROBE = "probe"

_FRESH_SECONDS = 5.0
_PATIENCE = 5.0  # a load balancer has given up by then
# More than fits into room that is left here and there, and not compressible.
_PROBE_BYTES = 16_000


class StoreHealth:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)
        self._looking = asyncio.Lock()
        self._looked_at = 0.0
        self._problem = ""

    async def problem(self) -> str:
        """Return in a few words why the store cannot be used, or nothing. For anybody to read:
        without names of machines and files."""
        async with self._looking:
            if not self._looked_at or clock.monotonic() - self._looked_at > _FRESH_SECONDS:
                self._problem = await self._find()
                self._looked_at = clock.monotonic()
            return self._problem

    async def _find(self) -> str:
        data = os.urandom(_PROBE_BYTES)
        probe = Entity(PARTITION, _PROBE, {"At": clock.now(), "Data": data})
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._table.upsert(probe)
        except StoreFull:
            return "the store is full"
        except StoreMissing:
            return "the file of the store is missing"
        except AccessDenied:
            return "the store cannot be written"
        except (StoreError, TimeoutError):
            return "the store cannot be reached"
        return ""
