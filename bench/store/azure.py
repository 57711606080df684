"""The Azure engine: its requests are counted, because they are what Azure charges for.

Azurite's speed says nothing of Azure's, so no rate is compared.
"""

from __future__ import annotations

from bench.figures import Figure
from bench.store import ours
from postroom.storage import open_store
from postroom.storage.azure.engine import AzureStore

PAGES = range(10)


async def figures() -> list[Figure]:
    store = await open_store("azure://")
    assert isinstance(store, AzureStore)
    async with store:
        # The first write makes the tables; what remains is what each further message costs.
        await ours.write_pages(store, range(100, 101))
        await ours.put_work_items(store, range(100, 101))
        await ours.settle_pages(store)
        before = sum(store.requests.values())
        await ours.write_pages(store, PAGES)
        await ours.put_work_items(store, PAGES)
        fanned_out = sum(store.requests.values())
        await ours.settle_pages(store)
        archived = sum(store.requests.values())
    return [
        Figure("fan-out of 1,000 emails", fanned_out - before, "requests"),
        Figure("claim, read, archive, delete of 1,000 emails", archived - fanned_out, "requests"),
        Figure(
            "both together",
            archived - before,
            "requests",
            target=80,
            target_on="value",
            target_is="at most",
        ),
    ]
