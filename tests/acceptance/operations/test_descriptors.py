"""`postroom up` without file descriptors."""

import asyncio
import os
import sys
from pathlib import Path

import httpx2
import pytest

from postroom.storage import open_store
from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import StoreAddress
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.waiting import free_ports, wait_until

COUNT = 300


def is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux")
async def test_a_server_without_descriptors_recovers_and_can_be_stopped(
    server: RecordingSmtp, tmp_path: Path
) -> None:
    import resource

    [port] = free_ports(1)
    url = f"sqlite:///{tmp_path / 'postroom.db'}"
    postroom = Postroom(StoreAddress("sqlite", url), server.url, tmp_path, {"port": str(port)})

    def limit(to: int) -> None:
        resource.prlimit(up.pid, resource.RLIMIT_NOFILE, (to, hard))

    try:
        async with await open_store(url) as store:
            services = Services(store)
            await fill(services, COUNT)
            up = postroom.start("up")
            wait_until(lambda: is_ready(port), seconds=30, what="the pages")
            _, hard = resource.prlimit(up.pid, resource.RLIMIT_NOFILE)
            used = max(map(int, os.listdir(f"/proc/{up.pid}/fd"))) + 1
            limit(used)
            checker = SumChecker(services, await schedule(services))
            wait_until(
                lambda: "Too many open files" in postroom.logs(), seconds=30, what="a failed launch"
            )
            assert up.poll() is None
            limit(hard)
            _, counts = await checker.until_done(60)
            assert server.copies() == {address_of(number): 1 for number in range(COUNT)}
            assert counts.accepted == COUNT
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                assert (await http.get("/login")).status_code == 200
            limit(used)
            assert await asyncio.to_thread(postroom.stop, up, 30) == 0
    finally:
        postroom.kill_all()
