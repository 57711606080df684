"""Proxies that pass visitors on without being trusted: whom the web server has seen, and when.

| table     | partition   | row         | holds                        |
|-----------|-------------|-------------|------------------------------|
| `proxies` | `untrusted` | its address | SeenAt: when it was last seen |

Behind such a proxy all visitors look like one and share its limits, so `postroom check` reports it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from postroom import clock
from postroom.services.entities import read
from postroom.storage import Entity, KeyRange, Store

TABLE = "proxies"
_UNTRUSTED = "untrusted"
_RECENT = timedelta(days=2)
_MOST = 100


class ProxySightings:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def record(self, address: str) -> None:
        """Keep that a proxy at this address has passed a visitor on."""
        await self._table.upsert(Entity(_UNTRUSTED, address, {"SeenAt": clock.now()}))

    async def recent(self) -> list[str]:
        """Return the addresses of proxies that were seen in the last days."""
        oldest = clock.now() - _RECENT
        found = await self._table.query(KeyRange.only(_UNTRUSTED), limit=_MOST)
        return [each.row for each in found.entities if read(each, "SeenAt", datetime) >= oldest]
