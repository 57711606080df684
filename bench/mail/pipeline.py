"""Postroom itself: real processes, from the scheduled message to its archive."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.mail import content
from postroom.domain.messages.messages import FINAL
from postroom.services import entities
from postroom.services.audience.subscriptions import new_subscriber
from postroom.storage import Insert, Operation, open_store
from postroom.wiring import Services
from tests.services.waiting import LOOPBACK

_POSTROOM = Path(sys.executable).with_name("postroom")
_FILL_AT_ONCE = 16
_LOOK_SECONDS = 0.02  # how late the end of a message may be seen


@dataclass(frozen=True)
class Run:
    """What one message took."""

    recipients: int
    seconds: float
    peak_kilobytes: dict[str, int]

    @property
    def rate(self) -> float:
        return self.recipients / self.seconds


async def send(
    store_url: str, folder: Path, port: int, recipients: int, kilobytes: int, senders: int = 1
) -> Run:
    """One message to a new list of so many, timed from its scheduling to its completion."""
    environment = {
        **os.environ,
        "POSTROOM_STORE": store_url,
        "POSTROOM_DATA": str(folder / "data"),
        "POSTROOM_TRANSPORT": f"smtp://{LOOPBACK}:{port}",
    }
    async with await open_store(store_url) as store:
        services = Services(store)
        await _fill(services, recipients)
        parts = ["scheduler", *["sender"] * senders]
        processes = [_start(part, number, folder, environment) for number, part in enumerate(parts)]
        try:
            await asyncio.sleep(2.0)  # until they wait for work
            started = time.perf_counter()
            message = await services.messages.create(
                content.LIST, "News", content.bodies(kilobytes), datetime.now(UTC)
            )
            while message.status not in FINAL:
                if any(process.poll() is not None for process in processes):
                    raise RuntimeError(f"a process has died: see {folder}")
                await asyncio.sleep(_LOOK_SECONDS)
                message = await services.messages.get(message.ref)
            seconds = time.perf_counter() - started
            peaks = {
                f"{part} {number}": _peak(process.pid)
                for number, (part, process) in enumerate(zip(parts, processes, strict=True))
            }
        finally:
            for process in processes:
                process.terminate()
                process.wait(20)
        counts = await services.outcomes.counts(message)
        assert counts.accepted == counts.planned == recipients, counts
    return Run(recipients, seconds, peaks)


async def _fill(services: Services, count: int) -> None:
    await services.lists.create(content.LIST, "Contoso's news", content.FROM)
    table = services.store.table(entities.LISTS)
    starts = iter(range(0, count, 50))

    async def insert() -> None:
        for start in starts:
            operations: list[Operation] = []
            for number in range(start, min(start + 50, count)):
                new = new_subscriber(content.LIST, content.address(number), verified=True)
                operations += [
                    Insert(entities.subscriber_entity(new)),
                    Insert(entities.lookup_entity(new)),
                ]
            await table.apply(operations)

    await asyncio.gather(*(insert() for _ in range(_FILL_AT_ONCE)))


def _start(
    part: str, number: int, folder: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    with (folder / f"{part}-{number}.log").open("wb") as log:
        return subprocess.Popen([_POSTROOM, part], env=environment, stdout=log, stderr=log)


def _peak(pid: int) -> int:
    """The most memory that a process ever had, in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
