"""All data moves between engines and stays the same, whatever interrupts it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.domain.errors import NotNow
from postroom.services import entities
from postroom.services.messages.message_contents import NewBodies
from postroom.services.operations.store_copy import PROGRESS, CopyFailed, StoreCopy
from postroom.storage import (
    Entity,
    InvalidStoreUrl,
    MessageToPut,
    Store,
    open_existing_store,
    open_store,
)
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, dies
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import fan_out_whole
from tests.services.stores.azurite import Azurite
from tests.services.stores.postgres import PostgresServer


async def fill_store(store: Store) -> None:
    """Some of everything that a store can hold."""
    services = Services(store)
    name = await make_list(services)
    await fill(store, name, 230)
    bodies = NewBodies("<p>ein Größerer Text ✓ {{ email }}</p>" * 3000, "Hello")
    await services.messages.create(name, "Later", bodies, datetime.now(UTC) + timedelta(days=2))
    await services.keys.create("site")
    table = store.table("everything")
    await table.insert(
        Entity(
            "a/b#?%",
            "ключ 🔑",
            {
                "Text": "CR\rLF\n",
                "Whole": 2**62,
                "Part": 0.1,
                "Yes": True,
                "When": datetime(2026, 11, 15, 7, 30, 1, 123456, tzinfo=UTC),
                "Bytes": bytes(range(256)),
            },
        )
    )
    await store.container("files").put("big.bin", hashlib.sha256(b"x").digest() * 200_000)
    await store.queue("shop/orders").put_many([f"order {n}" for n in range(40)])
    await store.queue("shop/orders;poison").put("bad", properties={"cycle": "2", "ü": "ö"})


async def everything(store: Store) -> list[object]:
    """All that can be read, without what belongs to the engine."""
    found: list[object] = []
    for name in await store.tables():
        if name != PROGRESS:
            scan = store.table(name).scan()
            found += [(name, e.partition, e.row, dict(e.properties)) async for e in scan]
    for name in await store.containers():
        for blob in (await store.container(name).list()).blobs:
            digest = hashlib.sha256(await store.container(name).read(blob.name)).hexdigest()
            found.append((name, blob.name, digest))
    for info in await store.queues():
        if info.name.startswith("shop/"):
            bodies = [
                (each.message.body, dict(each.message.properties))
                async for each in store.queue(info.name).scan()
            ]
            found.append((info.name, sorted(bodies, key=repr)))
    return found


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(f"sqlite:///{tmp_path}/source.db") as store:
        await fill_store(store)
        yield store


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(f"sqlite:///{tmp_path}/target.db") as store:
        yield store


@pytest.mark.timeout(240)
async def test_from_engine_to_engine_and_back_nothing_changes(
    source: Store,
    target: Store,
    postgres: PostgresServer,
    azurite: Azurite,
) -> None:
    before = await everything(source)
    database = postgres.create_database()
    account = azurite.connection_string(azurite.fresh_account())
    async with (
        await open_store(database) as on_postgres,
        await open_store("azure://", account) as on_azure,
    ):
        for old, new in ((source, on_postgres), (on_postgres, on_azure), (on_azure, target)):
            report = await StoreCopy(old, new).run()
            assert report.entities > 460
            assert report.messages == 41
    postgres.drop_database(database)

    assert await everything(target) == before
    assert await everything(source) == before, "the source stays as it is"


async def test_delays_travel(source: Store, target: Store) -> None:
    await source.queue("shop/later").put_many([MessageToPut("soon", delay=3600, ttl=7200)])
    await StoreCopy(source, target).run()

    [stored] = [each async for each in target.queue("shop/later").scan()]
    assert stored.expires_at is not None
    now = datetime.now(UTC)
    assert timedelta(minutes=55) < stored.ready_at - now < timedelta(minutes=61)
    assert timedelta(minutes=110) < stored.expires_at - now < timedelta(minutes=121)


async def test_an_interrupted_copy_is_resumed(source: Store, target: Store) -> None:
    before = await everything(source)
    for writes in (1, 2, 5, 9, 14, 20, 27, 200):
        fate = Fate(writes)
        if not await dies(StoreCopy(source, Fated(target, fate)).run()):
            break
    await StoreCopy(source, target).run()

    assert await everything(target) == before


async def test_it_is_refused_while_something_is_sent(source: Store, target: Store) -> None:
    message = await schedule(Services(source))
    await fan_out_whole(source, message.ref)

    with pytest.raises(NotNow, match=f"message {message.ref} is being sent"):
        await StoreCopy(source, target).run()
    assert await target.tables() == []


async def test_it_is_refused_for_a_store_that_is_used(source: Store, target: Store) -> None:
    await make_list(Services(target), "mine")

    with pytest.raises(NotNow, match="not empty"):
        await StoreCopy(source, target).run()


async def test_a_queue_or_a_container_makes_a_target_that_is_used(
    source: Store, target: Store
) -> None:
    await target.queue("shop/orders").put("mine")
    with pytest.raises(NotNow, match="it has queue shop/orders"):
        await StoreCopy(source, target).run()
    await target.queue("shop/orders").drop()
    await target.container("files").put("mine.txt", b"mine")
    with pytest.raises(NotNow, match="it has container files"):
        await StoreCopy(source, target).run()


async def test_an_empty_store_is_not_copied(target: Store, tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path}/unused.db") as unused:
        with pytest.raises(NotNow, match="the source is empty: check its URL"):
            await StoreCopy(unused, target).run()


async def test_a_mistyped_name_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreUrl, match=r"there is no store sqlite:///.*nope\.db"):
        await open_existing_store(f"sqlite:///{tmp_path}/nope.db")
    assert os.listdir(tmp_path) == []


async def test_a_copy_that_differs_does_not_count(source: Store, target: Store) -> None:
    copy = StoreCopy(source, target)
    await copy.run()
    await target.table(entities.LIST_INDEX).delete("list", "contoso1")
    again = StoreCopy(source, target)
    with pytest.raises(CopyFailed, match=r"differs|has more"):
        await again.run()
