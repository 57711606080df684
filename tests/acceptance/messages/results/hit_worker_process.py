"""Counts hits like the host's application, but judges them after a second, and its leases end soon:
a test kills it, and does not wait for minutes."""

import asyncio
import os
import sys

from postroom.encryption import Keyring
from postroom.inbound import hit_worker
from postroom.storage import Store, StoreOutage, open_store
from postroom.wiring import Services

_LEASE = 6.0
_JUDGE_AFTER = 1.0
_PAUSE = 0.5


async def opened(url: str) -> Store:
    """Open the store once it answers, as the host's application does."""
    while True:
        try:
            return await open_store(url, os.environ.get("POSTROOM_AZURE_CONNECTION_STRING", ""))
        except StoreOutage:
            await asyncio.sleep(_PAUSE)


async def count_hits(url: str) -> None:
    vars(hit_worker)["_LEASE"] = _LEASE
    async with await opened(url) as store:
        services = Services(store, Keyring(lambda: [b"not needed"]))
        worker = hit_worker.HitWorker(
            store,
            services.messages,
            services.engagement,
            services.personal_hits,
            judge_after=_JUDGE_AFTER,
        )
        await worker.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(count_hits(sys.argv[1]))
