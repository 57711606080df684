"""The lease of the process that counts in the background."""

from __future__ import annotations

from typing import Final

from postroom import clock
from postroom.storage import Lease, Store

_RENEW_AFTER: Final = 15.0


class CountingLease:
    """The lease for counting, which is renewed while a process counts."""

    def __init__(self, store: Store, lease: Lease | None) -> None:
        self._store = store
        self._lease = lease
        self._renewed = clock.monotonic()

    async def keep(self) -> None:
        """Renew the lease if necessary. `LeaseLost` if another process has it now."""
        if self._lease is not None and clock.monotonic() - self._renewed > _RENEW_AFTER:
            await self._store.renew_lease(self._lease)
            self._renewed = clock.monotonic()
