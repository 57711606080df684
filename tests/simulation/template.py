"""What the store of every run begins with: a list with some subscribers."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from random import Random

from postroom.domain.audience.addresses import Address
from postroom.wiring import Services
from tests.simulation.environment import EPOCH, predictable
from tests.simulation.memory.data import MemoryData
from tests.simulation.store import DirectStore

LIST = "news"


def address_of(number: int) -> Address:
    """Return the address of a subscriber, at one of two providers."""
    return Address(f"{'abcdefghij'[number]}@{'example.org' if number % 2 else 'gmail.com'}")


@lru_cache
def template(recipients: int) -> MemoryData:
    """Return a store with a list of so many subscribers."""
    data = MemoryData(EPOCH.timestamp)

    async def fill() -> None:
        services = Services(DirectStore(data))
        await services.lists.create(LIST, description="News", from_address="letters@example.org")
        for number in range(recipients):
            await services.subscriptions.add(LIST, address_of(number), verified=True)

    with predictable(Random(recipients)):
        asyncio.run(fill())
    return data
