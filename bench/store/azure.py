"""The Azure engine: its requests are counted, because they are what Azure charges for.

Azurite's speed says nothing about Azure's, so no rate is measured.
"""

from __future__ import annotations

from bench.figures import Figure
from bench.mail import pipeline
from bench.store import bookkeeping
from postroom.storage import open_store
from postroom.storage.azure.engine import AzureStore
from postroom.wiring import Services
from tests.integration.usecases.pages import fan_out_whole

EMAILS = 1000


async def figures(connection_string: str) -> list[Figure]:
    """Count the requests of one message, after another one for which tables were created."""
    store = await open_store("azure://", connection_string)
    assert isinstance(store, AzureStore)
    async with store:
        services = Services(store)
        await pipeline.fill(services, EMAILS)
        await _requests(services, store)
        fan_out, settling = await _requests(services, store)
    return [
        Figure("fan-out of 1,000 emails", fan_out, "requests"),
        Figure("claim and settle 1,000 emails", settling, "requests"),
        Figure(
            "both together",
            fan_out + settling,
            "requests",
            target=45,
            target_on="value",
            target_is="at most",
        ),
    ]


async def _requests(services: Services, store: AzureStore) -> tuple[int, int]:
    """Return the requests of fan-out, and of claiming and settling."""
    ref = (await pipeline.schedule(services, 2)).ref
    before = sum(store.requests.values())
    await fan_out_whole(store, ref)
    fanned_out = sum(store.requests.values())
    await bookkeeping.settle_all(services)
    return fanned_out - before, sum(store.requests.values()) - fanned_out
