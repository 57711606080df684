"""Opening and closing a store, and what its URL can get wrong."""

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from postroom.storage import (
    AccessDenied,
    Entity,
    InvalidStoreUrl,
    Store,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    open_store,
)
from tests.contract.conftest import CONNECTION_STRING, StoreAddress, open_at
from tests.services.stores.azurite import Azurite
from tests.services.stores.postgres import PostgresServer
from tests.services.waiting import free_ports

ROOT = Path(__file__).parents[2]
SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldCE="


def everything_said(error: BaseException) -> str:
    """The text of an error with all that led to it, as a log would show it."""
    return "".join(traceback.format_exception(error)) + repr(error)


async def test_data_outlives_the_process(address: StoreAddress) -> None:
    async with await open_at(address) as store:
        await store.table("people").insert(Entity("p", "r", {"A": 1}))
        await store.queue("q").put("message")
        await store.container("bodies").put("a.txt", b"blob")
        lease = await store.acquire_lease("scheduler", seconds=60)
        assert lease is not None
    async with await open_at(address) as store:
        found = await store.table("people").get("p", "r")
        assert found is not None
        assert found.properties == {"A": 1}
        assert [m.body for m in await store.queue("q").receive(lease=30)] == ["message"]
        assert await store.container("bodies").read("a.txt") == b"blob"
        assert await store.acquire_lease("scheduler", seconds=60) is None
        await store.renew_lease(lease)


async def test_a_store_says_what_it_is(store: Store, engine: str) -> None:
    info = await store.info()
    words = {
        "sqlite": "SQLite 3.",
        "postgres": "PostgreSQL",
        "azure": "Azure Storage",
        "memory": "memory",
    }
    assert info.engine.startswith(words[engine])
    assert info.location
    assert info.schema_version >= 1


async def test_a_closed_store_refuses_everything(address: StoreAddress) -> None:
    store = await open_at(address)
    await store.table("people").insert(Entity("p", "r", {}))
    await store.close()
    await store.close()  # twice is harmless
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.table("people").get("p", "r"),
        lambda: store.table("people").insert(Entity("p", "s", {})),
        lambda: store.table("people").query(),
        lambda: store.queue("q").put("x"),
        lambda: store.queue("q").receive(lease=5),
        lambda: store.queue("q").wait(1),
        lambda: store.container("bodies").put("a", b""),
        lambda: store.container("bodies").read("a"),
        lambda: store.acquire_lease("scheduler", seconds=5),
        lambda: store.tables(),
        lambda: store.queues(),
        lambda: store.info(),
    ]
    for call in calls:
        with pytest.raises(StoreClosed):
            await call()


async def test_closing_ends_calls_that_wait(address: StoreAddress) -> None:
    store = await open_at(address)
    waiting = asyncio.create_task(store.queue("q").wait(60))
    await asyncio.sleep(0.2)
    await store.close()
    async with asyncio.timeout(60):
        [answer] = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(answer, StoreClosed)


async def test_many_processes_can_open_a_new_store_at_once(address: StoreAddress) -> None:
    program = """
import asyncio, sys
from postroom.storage import Entity, open_store

async def main(number, *address):
    async with await open_store(*address) as store:
        await store.table("people").insert(Entity("p", number, {}))
        await store.queue("q").put(number)
        await store.container("bodies").put(number, b"x")

asyncio.run(main(*sys.argv[1:]))
"""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, str(number), address.url, address.connection_string),
            stderr=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for process in processes:
        _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    async with await open_at(address) as store:
        assert len((await store.table("people").query()).entities) == 4
        assert (await store.queue("q").info()).length == 4
        assert len((await store.container("bodies").list()).blobs) == 4


@pytest.mark.parametrize(
    "url",
    [
        "",
        "store.db",
        "mysql://localhost/x",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://store.db",
        "postgres",
        "azure:",
        "SQLITE:///x.db",
    ],
)
async def test_a_url_that_names_no_store_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreUrl):
        await open_store(url)


async def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidStoreUrl, match=r"sqlite://.*postgresql://.*azure://.*mysql"):
        await open_store("mysql://user:secret@localhost/x")


async def test_a_file_in_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="file"):
        await open_store(f"sqlite:///{tmp_path}/file/store.db")
    with pytest.raises(InvalidStoreUrl, match="folder"):
        await open_store(f"sqlite:///{tmp_path}")


async def test_a_server_that_does_not_answer(azurite: Azurite, postgres: PostgresServer) -> None:
    [port] = free_ports(1)
    with pytest.raises(StoreUnavailable, match=str(port)) as failure:
        await open_store(f"postgresql://postgres:{SECRET}@127.0.0.1:{port}/x")
    assert SECRET not in everything_said(failure.value)

    here = azurite.connection_string()
    for used in (azurite.blob_port, azurite.queue_port, azurite.table_port):
        here = here.replace(str(used), str(port))
    with pytest.raises(StoreUnavailable) as failure:
        await open_store("azure://", here)
    assert "AccountKey" not in everything_said(failure.value)


async def test_a_wrong_secret_is_refused_and_not_repeated(
    azurite: Azurite, postgres: PostgresServer
) -> None:
    with pytest.raises(AccessDenied) as failure:
        await open_store(postgres.guarded_url("postgres", SECRET))
    assert SECRET not in everything_said(failure.value)
    assert SECRET.rstrip("=") not in everything_said(failure.value)

    parts = azurite.connection_string().split(";")
    wrong = [f"AccountKey={SECRET}" if part.startswith("AccountKey") else part for part in parts]
    with pytest.raises(AccessDenied) as failure:
        await open_store("azure://", ";".join(wrong))
    assert SECRET not in everything_said(failure.value)


async def test_a_database_that_does_not_exist(postgres: PostgresServer) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        await open_store(postgres.url("nowhere"))


@pytest.mark.parametrize(
    "text", ["", "nonsense", f"AccountKey={SECRET}", f"AccountName=a;{SECRET}"]
)
async def test_a_malformed_connection_string(text: str) -> None:
    with pytest.raises(InvalidStoreUrl, match=CONNECTION_STRING) as failure:
        await open_store("azure://", text)
    assert SECRET not in everything_said(failure.value)


async def test_an_engine_whose_driver_is_missing_says_what_to_install() -> None:
    program = """
import asyncio, sys
sys.modules["psycopg"] = None
from postroom.storage import InvalidStoreUrl, open_store
try:
    asyncio.run(open_store("postgresql://localhost/x"))
except InvalidStoreUrl as exc:
    print(exc)
"""
    answer = await asyncio.to_thread(
        subprocess.check_output, [sys.executable, "-c", program], text=True
    )
    assert "pip install 'postroom[postgres]'" in answer
