"""Processes that are killed at random lose no message and finish none twice."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from postroom.storage import Queue, QueueMessage
from tests.contract.conftest import StoreAddress, open_at
from tests.contract.processes.torture_worker import BATCH, QUEUE
from tests.long import sized
from tests.services.waiting import BUSY

ROOT = Path(__file__).parents[3]
QUIET_SECONDS = "10"  # longer than a dead worker's lease, and than the start of a new one


@dataclass(frozen=True)
class Load:
    messages: int
    putters: int
    takers: int
    kills: int


LOADS = {
    "sqlite": Load(sized(4_000, 20_000), 3, 4, sized(8, 20)),
    "postgres": Load(sized(4_000, 20_000), 3, 4, sized(8, 20)),
    "azure": Load(sized(240, 600), 2, 2, sized(3, 6)),
}


@dataclass
class Workers:
    """The processes of one run, each with its own log."""

    address: StoreAddress
    folder: Path
    running: list[tuple[subprocess.Popen[bytes], list[str]]] = field(default_factory=list)
    killed_logs: set[Path] = field(default_factory=set)
    started: int = 0

    def start(self, *what: str) -> None:
        self.started += 1
        log = str(self.folder / f"{self.started}.log")
        command = [sys.executable, "-m", "tests.contract.processes.torture_worker"]
        process = subprocess.Popen(
            [*command, self.address.url, log, *what],
            cwd=ROOT,
            env={**os.environ, **self.address.environment},
        )
        self.running.append((process, [log, *what]))

    def kill_one(self) -> None:
        """SIGKILL one that is at work, and start another that goes on where it may be."""
        alive = [entry for entry in self.running if entry[0].poll() is None]
        # One that has not written yet is still importing: its death would prove little.
        busy = [entry for entry in alive if Path(entry[1][0]).exists()]
        if not busy:
            return
        process, (log, what, *numbers) = random.choice(busy)
        process.kill()
        process.wait()
        self.killed_logs.add(Path(log))
        if what == "put":
            tried = len(bodies_after("putting", Path(log)))
            first, count = int(numbers[0]) + tried, int(numbers[1]) - tried
            if count > 0:
                self.start("put", str(first), str(count))
        else:
            self.start("take", QUIET_SECONDS)

    async def kill_along_the_way(self, load: Load) -> None:
        """One kill after each equal share of the messages, so that all fall into the work."""
        deadline = time.monotonic() + 100 * BUSY
        for number in range(1, load.kills + 1):
            while len(self.killed_logs) < number:
                if time.monotonic() > deadline:
                    raise TimeoutError("the work does not get on")
                await asyncio.sleep(0.05)
                if self.logged("finished").total() >= number * load.messages // (load.kills + 2):
                    self.kill_one()

    def join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process, what in self.running:
            status = process.wait(max(0.1, deadline - time.monotonic()))
            assert status in (0, -9), what

    def kill_all(self) -> None:
        for process, _ in self.running:
            process.kill()
            process.wait()

    def logged(self, what: str) -> Counter[str]:
        return Counter(
            body for log in self.folder.glob("*.log") for body in bodies_after(what, log)
        )


def bodies_after(what: str, log: Path) -> list[str]:
    if not log.exists():
        return []
    lines = [line.split(" ") for line in log.read_text().splitlines()]
    return [body for word, *bodies in lines if word == what for body in bodies]


@pytest.mark.timeout(300)
async def test_killed_processes_lose_nothing_and_finish_nothing_twice(
    engine: str, address: StoreAddress, tmp_path: Path
) -> None:
    load = LOADS[engine]
    workers = Workers(address, tmp_path)
    share = load.messages // load.putters
    try:
        async with await open_at(address) as store:
            for number in range(load.putters):
                workers.start("put", str(number * share), str(share))
            for _ in range(load.takers):
                workers.start("take", QUIET_SECONDS)
            await workers.kill_along_the_way(load)
            workers.join(120 * BUSY)
            left = [message.body for message in await drained(store.queue(QUEUE))]
    finally:
        workers.kill_all()

    put, putting = set(workers.logged("put")), set(workers.logged("putting"))
    finished, finishing = workers.logged("finished"), set(workers.logged("finishing"))
    # Finished in the store, but killed before it could be written down: by its intention.
    unwritten = {body for log in workers.killed_logs for body in bodies_after("finishing", log)}

    assert len(workers.killed_logs) == load.kills
    assert [body for body, times in finished.items() if times > 1] == []
    assert set(finished).isdisjoint(left)
    assert put - set(finished) - set(left) - unwritten == set(), "messages were lost"
    assert (set(finished) | set(left)) <= putting, "messages came from nowhere"
    assert len(putting - put) <= load.kills * BATCH
    assert finishing <= putting


async def drained(queue: Queue) -> list[QueueMessage]:
    found: list[QueueMessage] = []
    for _ in range(2000):
        batch = await queue.receive(32, lease=600)
        if not batch and not await queue.wait(4):
            return found
        found += batch
    raise AssertionError("the queue has no end")
