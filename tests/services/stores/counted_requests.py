"""Requests to Azure Storage that a message really makes, counted in a run against Azurite."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.messages import FINAL
from postroom.hosted import register_apps, run_host
from postroom.scheduler import Scheduler
from postroom.sender import Sender, SenderSettings
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.messages.message_contents import NewBodies
from postroom.settings import load_settings
from postroom.storage import Insert, open_store
from postroom.storage.azure.engine import AzureStore
from postroom.transport.registry import open_transport
from postroom.wiring import Services


async def count_requests(account: str, folder: Path, recipients: int) -> Counter[str]:
    """By service: what one message to so many costs from its scheduling to its archive.

    With a scheduler and a sender that run as they do in production, polling included.
    """
    opened = await open_store("azure://", account)
    assert isinstance(opened, AzureStore)
    async with opened as store:
        services = Services(store)
        await services.lists.create("cost", "What it costs", "news@example.com")
        await _fill(services, recipients)
        transport = open_transport("outbox:", folder=folder / "outbox")
        stopping = asyncio.Event()
        before = Counter(store.requests)
        message = await services.messages.create(
            "cost", "News", NewBodies("<p>Hello</p>", "Hello"), datetime.now(UTC)
        )
        sender = Sender(
            services, transport, SenderSettings("http://localhost", folder / "journals", lease=60)
        )
        parts = [Scheduler(services, lease_seconds=15).run(stopping), sender.run(stopping)]
        running = [asyncio.create_task(part) for part in parts]
        async with asyncio.timeout(300):
            while message.status not in FINAL:
                await asyncio.sleep(1.0)
                message = await services.messages.get(message.ref)
        counted = Counter(store.requests)
        counted.subtract(before)
        stopping.set()
        await asyncio.gather(*running)
        await transport.close()
    return counted


async def _fill(services: Services, count: int) -> None:
    table = services.store.table(entities.LISTS)
    for start in range(0, count, 50):
        operations = []
        for number in range(start, min(start + 50, count)):
            new = new_subscriber(
                ListName("cost"), Address(f"user{number:06}@example.com"), verified=True
            )
            operations += [
                Insert(entities.subscriber_entity(new)),
                Insert(entities.lookup_entity(new)),
            ]
        await table.apply(operations)


async def count_idle_requests(account: str, folder: Path, seconds: float) -> Counter[str]:
    """By service: what a scheduler and a host cost while nothing happens."""
    variables = {
        "POSTROOM_DATA": str(folder),
        "POSTROOM_STORE": "azure://",
        "POSTROOM_AZURE_CONNECTION_STRING": account,
    }
    settings = load_settings(variables, folder)
    opened = await open_store("azure://", account)
    assert isinstance(opened, AzureStore)
    async with opened as store:
        stopping = asyncio.Event()
        services = Services(store)
        await register_apps(settings, services.apps)
        parts = [Scheduler(services, lease_seconds=15).run(stopping)]
        parts.append(run_host(services, settings, stopping))
        running = [asyncio.create_task(part) for part in parts]
        await asyncio.sleep(60)  # until pauses are as long as they get
        before = Counter(store.requests)
        await asyncio.sleep(seconds)
        counted = Counter(store.requests)
        counted.subtract(before)
        stopping.set()
        await asyncio.gather(*running)
    return counted
