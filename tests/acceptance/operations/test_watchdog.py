"""A part that makes no progress, for a reason that nobody thought of, is restarted."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from postroom.services.events import Severity
from postroom.wiring import Services
from tests.acceptance.harness import CONNECTIONS, Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import ON_ONE_ENGINE, StoreAddress
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.stores.postgres import PostgresServer
from tests.services.tcp_proxy import TcpProxy, running_proxy
from tests.services.waiting import BUSY, free_ports

COUNT = 2_000


@pytest.fixture
def engine() -> str:
    return "postgres"


async def until_ready_says(port: int, wanted: str) -> None:
    """Ask `/readyz` until it says what is wrong."""
    deadline = time.monotonic() + 30 * BUSY
    said = ""
    async with httpx2.AsyncClient(timeout=60) as http:
        while time.monotonic() < deadline:
            with suppress(httpx2.ConnectError):  # it is starting
                answer = await http.get(f"http://127.0.0.1:{port}/readyz")
                said = str(answer.json()["status"])
                if (answer.status_code, said) == (503, wanted):
                    return
            await asyncio.sleep(0.1)
    raise TimeoutError(f"/readyz says {said!r}, not {wanted!r}")


async def keep_freezing(proxy: TcpProxy) -> None:
    """Freeze connections, and those that are opened because others are frozen: with a working one,
    the sender goes on."""
    while True:
        proxy.freeze()
        await asyncio.sleep(0.1)


@pytest.mark.timeout(120)
async def test_a_sender_whose_connections_are_dead_says_so_and_starts_again(
    address: StoreAddress,
    services: Services,
    server: RecordingSmtp,
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    [port] = free_ports(1)
    server.script(Rule("end", wait=0.05))  # most is left when it freezes
    async with running_proxy(postgres.port) as proxy:
        direct = Postroom(address, server.url, tmp_path)
        direct.settings["port"] = str(port)
        database = address.url.rpartition("/")[2]
        frozen = StoreAddress(
            "postgres", f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}"
        )
        postroom = Postroom(frozen, server.url, tmp_path)
        postroom.settings |= {"stalled_after": "4s", "sender_lease": "10s"}
        try:
            await fill(services, COUNT)
            message = await schedule(services)
            checker = SumChecker(services, message)
            for part in ("web", "scheduler"):
                direct.start(part)
            sender = postroom.start("sender")
            await checker.until(lambda _, c: c.done >= 300, seconds=30, why="no progress")
            freezing = asyncio.create_task(keep_freezing(proxy))
            try:
                await until_ready_says(port, "the sender made no progress")
            finally:
                freezing.cancel()
            await checker.until_it_continues(within=30)
            _, counts = await checker.until_done(60)
            assert sender.poll() is None, "it is the same process"
            copies = server.copies()
            assert set(copies) == {address_of(number) for number in range(COUNT)}
            assert counts.accepted == COUNT
            twice = sum(copies.values()) - COUNT
            assert twice <= counts.possible_duplicates <= CONNECTIONS
            events = (await services.events.slice(least=Severity.ERROR)).events
            assert any("the sender made no progress" in each.text for each in events)
            assert await asyncio.to_thread(postroom.stop, sender) == 0
        finally:
            postroom.kill_all()
            direct.kill_all()


@ON_ONE_ENGINE
async def test_parts_that_have_nothing_to_do_are_not_taken_for_stalled(
    address: StoreAddress, server: RecordingSmtp, tmp_path: Path
) -> None:
    """The second scheduler asks for the lease every 20 seconds, the sender for work every 5."""
    postroom = Postroom(address, server.url, tmp_path)
    postroom.settings |= {"stalled_after": "4s", "scheduler_lease": "60s"}
    try:
        processes = [postroom.start(part) for part in ("scheduler", "scheduler", "sender")]
        await asyncio.sleep(12.0)
        assert all(process.poll() is None for process in processes)
        assert "no progress" not in postroom.logs()
    finally:
        postroom.kill_all()
