"""Processes that are killed while they move messages leave each in exactly one queue."""

import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from postroom.storage import QueueMessage, Store
from tests.contract.conftest import StoreAddress
from tests.contract.processes.moving_worker import QUEUES
from tests.contract.processes.test_torture import ROOT
from tests.long import sized
from tests.services.waiting import BUSY, until

MESSAGES = 40
KILLS = sized(10, 20)
WORKERS = 3


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    """Where a move is one step. On Azure a crash may leave a message in both queues."""
    return str(request.param)


def start(address: StoreAddress) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.contract.processes.moving_worker", address.url]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **address.environment})


async def moves(store: Store) -> int:
    """How often the messages that are ready have been moved, at the most."""
    ready = [message for name in QUEUES for message in await store.queue(name).peek(32)]
    return max((int(m.properties.get("moves", "0")) for m in ready), default=0)


async def wait_for_moves(store: Store, least: int) -> None:
    async def are_moved() -> bool:
        return await moves(store) >= least

    await until(are_moved, f"messages are moved {least} times")


async def all_messages(store: Store) -> list[QueueMessage]:
    """As many as there should be, once the leases of the dead have run out."""
    found: list[QueueMessage] = []
    deadline = time.monotonic() + 60 * BUSY
    while len(found) < MESSAGES:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {len(found)} messages are left")
        for name in await store.wait_for_messages(QUEUES, timeout=5):
            found += await store.queue(name).receive(32, lease=600)
    return found


@pytest.mark.timeout(110)
async def test_killed_processes_that_move_leave_each_message_in_one_queue(
    store: Store, address: StoreAddress
) -> None:
    await store.queue(QUEUES[0]).put_many([str(number) for number in range(MESSAGES)])
    workers: list[subprocess.Popen[bytes]] = []
    try:
        workers += [start(address) for _ in range(WORKERS)]
        for kill in range(KILLS):
            await wait_for_moves(store, 2 * (kill + 1))
            victim = workers.pop(0)  # the one that is longest at work
            victim.kill()
            assert victim.wait(10 * BUSY) == -9, "it died by itself"
            workers.append(start(address))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait(10 * BUSY)
    found = await all_messages(store)
    assert Counter(m.body for m in found) == Counter(str(n) for n in range(MESSAGES))
    assert sum([(await store.queue(name).info()).length for name in QUEUES]) == MESSAGES
