"""One suite for every engine: each test gets a new, empty store of each kind."""

import inspect
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from postroom.storage import Store, Table, open_store
from tests.services.stores.azurite import Azurite
from tests.services.stores.postgres import PostgresServer
from tests.simulation.memory.data import MemoryData
from tests.simulation.memory.store import MemoryStore

CONNECTION_STRING = "POSTROOM_AZURE_CONNECTION_STRING"
ON_ONE_ENGINE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""For tests of what does not depend on the engine."""


@dataclass(frozen=True)
class StoreAddress:
    """Where a store is: enough for another process to open it, too."""

    engine: str
    url: str
    environment: dict[str, str] = field(default_factory=dict)
    memory: MemoryData | None = None
    """The data of the simulation's engine, which no other process can open."""

    @property
    def connection_string(self) -> str:
        """The account, on Azure."""
        return self.environment.get(CONNECTION_STRING, "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests on the simulation's engine that need an address for other processes."""
    items[:] = [
        item
        for item in items
        if not (
            isinstance(item, pytest.Function)
            and "[memory" in item.name
            and "address" in inspect.signature(item.function).parameters
        )
    ]


@pytest.fixture(params=["sqlite", "postgres", "azure", "memory"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreAddress]:
    """An empty store that nobody else uses."""
    if engine == "memory":
        yield StoreAddress(engine, "memory:", memory=MemoryData(time.time))
    elif engine == "sqlite":
        yield StoreAddress(engine, f"sqlite:///{tmp_path / 'store.db'}")
    elif engine == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        with server.empty_database() as url:
            yield StoreAddress(engine, url)
    else:
        azurite: Azurite = request.getfixturevalue("azurite")
        environment = {CONNECTION_STRING: azurite.connection_string(azurite.fresh_account())}
        yield StoreAddress(engine, "azure://", environment)


async def open_at(address: StoreAddress) -> Store:
    if address.memory is not None:
        return MemoryStore(address.memory)
    return await open_store(address.url, address.connection_string)


@pytest.fixture
async def store(address: StoreAddress) -> AsyncIterator[Store]:
    async with await open_at(address) as opened:
        yield opened


@pytest.fixture
async def other_store(address: StoreAddress, store: Store) -> AsyncIterator[Store]:
    """The same store, opened a second time: another process, as far as the engine can tell."""
    async with await open_at(address) as opened:
        yield opened


@pytest.fixture
def table(store: Store) -> Table:
    return store.table("people")
