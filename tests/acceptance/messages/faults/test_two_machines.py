"""Two machines on one PostgreSQL, one of which dies while both are sending."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from postroom.wiring import Services
from tests.acceptance.harness import (
    Postroom,
    SumChecker,
    address_of,
    fill,
    schedule,
)
from tests.contract.conftest import StoreAddress
from tests.long import sized
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.waiting import accepts_connections, free_ports, wait_until

COUNT = sized(5_000, 100_000)


@pytest.fixture
def engine() -> str:
    return "postgres"


def is_ready(port: int) -> bool:
    return httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code == 200


@pytest.mark.timeout(240)
async def test_a_machine_that_dies_while_sending_costs_only_time(
    address: StoreAddress, services: Services, server: RecordingSmtp, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    machines = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        machine = Postroom(address, server.url, folder)
        # Another data folder: neither can read the other's journals, as on another machine.
        machine.settings |= {"sender_lease": "10s", "host_lease": "5s", "port": str(port)}
        machines.append(machine)
    one, two = machines
    try:
        await fill(services, COUNT)
        for part in ("web", "scheduler", "host"):
            one.start(part)
        doomed = two.start("host")
        wait_until(lambda: accepts_connections(port), seconds=60, what="the web server")
        message = await schedule(services)
        checker = SumChecker(services, message)
        await checker.until(
            lambda _, counts: counts.done >= COUNT // 4, seconds=90, why="no progress"
        )
        doomed.kill()
        doomed.wait()

        _, counts = await checker.until_done(120)

        copies = server.copies()
        assert set(copies) == {address_of(n) for n in range(COUNT)}, "somebody was forgotten"
        assert counts.accepted == counts.planned == COUNT
        twice = {recipient for recipient, times in copies.items() if times > 1}
        listed = {
            each.address async for each in services.outcomes.emails(message) if each.was_in_doubt
        }
        assert twice <= listed, "somebody got it twice in silence"
        wait_until(lambda: is_ready(port), seconds=30, what="/readyz")
    finally:
        for machine in machines:
            machine.kill_all()
