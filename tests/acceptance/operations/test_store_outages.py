"""A store that is full, read-only or away while emails are sent: it costs time, and nothing else.

Real processes, a real PostgreSQL server or SQLite file, and a real disk that is full.
"""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest

from postroom.storage import open_store
from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import StoreAddress
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.missing import require
from tests.services.process import unprivileged
from tests.services.stores.postgres import END_OTHERS, PostgresServer
from tests.services.stores.small_disk import SmallDisk, mounted_small_disk
from tests.services.waiting import BUSY, accepts_connections, free_ports, until, wait_until

COUNT = 4_000
SLOWLY = Rule("end", wait=0.01)
"""So slowly that most emails are still to be sent when the store fails."""
WAITS = "until the store can be used"
"""What a sender's log says during an outage."""


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with mounted_small_disk(64, unprivileged("postgres")) as mounted:
        yield mounted


@contextmanager
def store_on(disk: SmallDisk, engine: str, postgres: PostgresServer) -> Iterator[str]:
    """A store whose data, and nothing else, is on the small disk."""
    if engine == "sqlite":
        yield f"sqlite:///{disk.folder / 'store' / 'postroom.db'}"
        return
    name = disk.folder.name.replace("-", "_")
    postgres.execute(f"CREATE TABLESPACE {name} LOCATION '{disk.folder}'")
    postgres.execute(f"CREATE DATABASE {name} TABLESPACE {name}")
    try:
        yield postgres.url(name)
    finally:
        disk.make_room()
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
        postgres.execute(f"DROP TABLESPACE {name}")


async def until_it_waits(postroom: Postroom, server: RecordingSmtp) -> int:
    """Until a sender says that it waits and has stopped sending; returns how many it has sent."""
    await until(
        lambda: WAITS in postroom.logs(),
        lambda: f"a sender waits for the store:\n{postroom.logs()}",
    )
    for _ in range(60):
        before = len(server.accepted())
        await asyncio.sleep(1.0)
        if len(server.accepted()) == before:
            return before
    raise AssertionError("it goes on sending what it cannot record")


async def check_each_got_it_once(checker: SumChecker, server: RecordingSmtp) -> None:
    _, counts = await checker.until_done(60)
    assert server.copies() == {address_of(number): 1 for number in range(COUNT)}
    assert counts.accepted == counts.planned == COUNT
    assert counts.possible_duplicates == counts.in_doubt == 0


@pytest.mark.timeout(120)
async def test_a_full_disk_costs_only_time(
    engine: str, disk: SmallDisk, postgres: PostgresServer, server: RecordingSmtp, tmp_path: Path
) -> None:
    with store_on(disk, engine, postgres) as url:
        postroom = Postroom(StoreAddress(engine, url), server.url, tmp_path)
        try:
            async with await open_store(url) as store:
                services = Services(store)
                await fill(services, COUNT)
                message = await schedule(services)
                checker = SumChecker(services, message)
                server.script(SLOWLY)
                postroom.start("scheduler")
                sender = postroom.start("sender")
                await checker.until(lambda _, c: c.done >= 300, seconds=30, why="no progress")
                disk.fill()
                await until_it_waits(postroom, server)
                disk.make_room()
                server.script()
                await checker.until_it_continues(within=20)
                await check_each_got_it_once(checker, server)
                assert await asyncio.to_thread(postroom.stop, sender) == 0
        finally:
            postroom.kill_all()


def set_read_only(url: str, *, read_only: bool) -> None:
    """For all sessions of a database, also those that are under way."""
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        state = "on" if read_only else "off"
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {state}")
        if read_only:
            connection.execute(END_OTHERS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_read_only_database_costs_only_time(
    postroom: Postroom, services: Services, server: RecordingSmtp, address: StoreAddress
) -> None:
    await fill(services, COUNT)
    message = await schedule(services)
    checker = SumChecker(services, message)
    server.script(SLOWLY)
    postroom.start("scheduler")
    sender = postroom.start("sender")
    await checker.until(lambda _, counts: counts.done >= 300, seconds=30, why="no progress")
    set_read_only(address.url, read_only=True)
    try:
        await until_it_waits(postroom, server)
        # Stopped meanwhile, it leaves what it knows to the next one, and does not linger.
        started = time.monotonic()
        assert await asyncio.to_thread(postroom.stop, sender) == 0
        assert time.monotonic() - started < 10 * BUSY
        postroom.start("sender")
    finally:
        set_read_only(address.url, read_only=False)
    server.script()
    await checker.until_it_continues(within=20)
    await check_each_got_it_once(checker, server)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("engine", ["postgres"])
async def test_an_outage_that_outlasts_all_leases_costs_only_time(
    postroom: Postroom,
    services: Services,
    server: RecordingSmtp,
    postgres: PostgresServer,
    address: StoreAddress,
    tmp_path: Path,
) -> None:
    """Of two machines, neither takes the other's pages when the database is back."""
    folder = tmp_path / "two"
    folder.mkdir()
    other = Postroom(address, server.url, folder)
    for machine in (postroom, other):
        machine.settings["sender_lease"] = "20s"
    try:
        await fill(services, COUNT)
        message = await schedule(services)
        checker = SumChecker(services, message)
        server.script(SLOWLY)
        postroom.start("scheduler")
        for machine in (postroom, postroom, other):
            machine.start("sender")
        await checker.until(lambda _, counts: counts.done >= 300, seconds=30, why="no progress")
        await asyncio.to_thread(postgres.stop, immediate=True)
        try:
            await asyncio.sleep(36.0)  # calls to the database give up after 30 seconds
        finally:
            await asyncio.to_thread(postgres.start)
        server.script()
        await checker.until_it_continues(within=20)
        await check_each_got_it_once(checker, server)
    finally:
        other.kill_all()


async def ready(http: httpx2.AsyncClient) -> str:
    return str((await http.get("/readyz")).json()["status"])


async def until_ready_says(http: httpx2.AsyncClient, wanted: str) -> None:
    said = ""
    for _ in range(900):
        said = await ready(http)
        if said == wanted:
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"/readyz says {said!r}, not {wanted!r}")


@contextmanager
def immutable(*files: Path) -> Iterator[None]:
    """Make files read-only also for processes that have them open (`chattr +i`)."""
    names = [str(file) for file in files]
    if subprocess.run(["chattr", "+i", *names], capture_output=True).returncode != 0:
        require("the right to make a file immutable (chattr +i)", "run the tests as root on ext4")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *names], check=True, capture_output=True)


@pytest.mark.timeout(120)
async def test_a_read_only_file_does_not_end_a_server(
    server: RecordingSmtp, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    database = tmp_path / "postroom.db"
    url = f"sqlite:///{database}"
    postroom = Postroom(StoreAddress("sqlite", url), server.url, tmp_path, {"port": str(port)})
    server.script(SLOWLY)
    try:
        async with (
            await open_store(url) as store,
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
        ):
            services = Services(store)
            await fill(services, COUNT)
            up = postroom.start("up")
            wait_until(lambda: accepts_connections(port), seconds=30, what="the pages")
            checker = SumChecker(services, await schedule(services))
            await checker.until(lambda _, c: c.done >= 300, seconds=30, why="no progress")
            with immutable(database, database.with_name("postroom.db-wal")):
                await until_ready_says(http, "the store cannot be written")
                await until_it_waits(postroom, server)
                assert (await http.get("/login")).status_code == 200
                assert up.poll() is None
            server.script()
            await checker.until_it_continues(within=20)
            await until_ready_says(http, "ok")
            await check_each_got_it_once(checker, server)
            assert await asyncio.to_thread(postroom.stop, up, 30) == 0
    finally:
        postroom.kill_all()


@pytest.mark.timeout(120)
async def test_a_full_disk_does_not_end_a_server_that_has_everything_on_it(
    server: RecordingSmtp, tmp_path: Path
) -> None:
    """Store, journals and metrics: no part of `postroom up` ends, also not by SIGBUS."""
    [port] = free_ports(1)
    with mounted_small_disk(160) as disk:
        url = f"sqlite:///{disk.folder / 'postroom.db'}"
        postroom = Postroom(StoreAddress("sqlite", url), server.url, tmp_path)
        postroom.settings |= {"port": str(port), "data": str(disk.folder / "data")}
        server.script(SLOWLY)
        try:
            async with (
                await open_store(url) as store,
                httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
            ):
                services = Services(store)
                await fill(services, COUNT)
                up = postroom.start("up")
                wait_until(lambda: accepts_connections(port), seconds=30, what="the pages")
                await until_ready_says(http, "ok")
                checker = SumChecker(services, await schedule(services))
                await checker.until(lambda _, c: c.done >= 300, seconds=30, why="no progress")
                disk.fill()
                await until_ready_says(http, "the store is full")
                assert (await http.get("/healthz")).status_code == 200
                assert (await http.get("/login")).status_code == 200
                assert up.poll() is None
                disk.make_room()
                server.script()
                await checker.until_it_continues(within=20)
                await until_ready_says(http, "ok")
                await check_each_got_it_once(checker, server)
                assert await asyncio.to_thread(postroom.stop, up, 30) == 0
        finally:
            postroom.kill_all()
