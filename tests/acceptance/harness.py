"""Postroom as it really runs: processes, a store, and a mail server that records."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import FINAL, Message
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import Insert
from postroom.wiring import Services
from tests.contract.conftest import StoreAddress
from tests.services.waiting import BUSY

POSTROOM = Path(sys.executable).with_name("postroom")
LIST = "contoso1"
CONNECTIONS = 4


@dataclass
class Postroom:
    """The processes of one test, and their settings."""

    address: StoreAddress
    transport: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, part: str) -> subprocess.Popen[bytes]:
        """`postroom scheduler` or `postroom sender`, with its log in the test's folder."""
        log = (self.folder / f"{part}-{len(self.processes)}.log").open("wb")
        process = subprocess.Popen(
            [POSTROOM, part],
            cwd=self.folder,
            env={**os.environ, **self.address.environment, **self.environment()},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.close()
        self.processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes], seconds: float = 60) -> int:
        """SIGTERM, and the exit status; it may take `BUSY` times as many seconds."""
        process.send_signal(signal.SIGTERM)
        return process.wait(BUSY * seconds)

    def kill_all(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')}"
            for path in sorted(self.folder.glob("*.log"))
        )

    def environment(self) -> dict[str, str]:
        settings = {
            "store": self.address.url,
            "transport": self.transport,
            "data": str(self.folder / "data"),
            "connections": str(CONNECTIONS),
            "scheduler_lease": "1s",
            "canary_from": "0",  # a test that wants a canary says so
            "port": "0",  # any that is free
            "base_url": "http://localhost:8420",
            **self.settings,
        }
        return {f"POSTROOM_{name.upper()}": value for name, value in settings.items()}


def address_of(number: int) -> Address:
    return Address(f"user{number:06}@example.com")


async def fill(services: Services, count: int, *, verified: bool = True) -> None:
    """The list, and `count` subscribers on it."""
    await services.lists.create(LIST, "Contoso's news", "news@contoso.example")
    table = services.store.table(entities.LISTS)

    async def insert(start: int) -> None:
        operations = []
        for number in range(start, min(start + 50, count)):
            new = new_subscriber(ListName(LIST), address_of(number), verified=verified)
            operations += [
                Insert(entities.subscriber_entity(new)),
                Insert(entities.lookup_entity(new)),
            ]
        await table.apply(operations)

    limit = asyncio.Semaphore(8)

    async def limited(start: int) -> None:
        async with limit:
            await insert(start)

    await asyncio.gather(*(limited(start) for start in range(0, count, 50)))


async def schedule(services: Services, subject: str = "News") -> Message:
    return await services.messages.create(
        LIST, subject, NewBodies("<p>Hello {{ email }}</p>", "Hello {{ email }}"), datetime.now(UTC)
    )


class SumChecker:
    """Reads the counts all the while, and finds out whether the sum ever does not hold."""

    def __init__(self, services: Services, message: Message) -> None:
        self._services = services
        self._ref = message.ref
        self.looks = 0
        self.last = Counts()

    async def look(self) -> tuple[Message, Counts]:
        message = await self._services.messages.get(self._ref)
        counts = await self._services.outcomes.counts(message)
        shown = counts.as_dict()
        parts = ("pending", "accepted", "refused", "suppressed", "in_doubt")
        assert shown["planned"] == sum(shown[part] for part in parts)
        assert min(shown.values()) >= 0, shown
        assert counts.possible_duplicates <= counts.done
        assert counts.accepted >= self.last.accepted, "accepted emails do not come back"
        assert counts.planned >= self.last.planned
        self.looks += 1
        self.last = counts
        return message, counts

    async def until(
        self, is_so: Callable[[Message, Counts], bool], *, seconds: float, why: str
    ) -> tuple[Message, Counts]:
        """Wait until something is so; fail after `BUSY` times `seconds`."""
        deadline = time.monotonic() + BUSY * seconds
        while True:
            message, counts = await self.look()
            if is_so(message, counts):
                return message, counts
            if time.monotonic() > deadline:
                raise TimeoutError(f"{why}: {message.status} {counts.as_dict()}")
            await asyncio.sleep(0.05)

    async def until_it_continues(self, within: float) -> None:
        """Wait for further records, and print how long it took (`pytest -rP`).

        `within` is what `docs/reliability.md` promises after a fault. On a machine that others use,
        too, it may take three times as long.

        A message may be done before this looks for the first time: that counts as well.
        """
        _, before = await self.look()
        began = time.monotonic()
        await self.until(
            lambda message, counts: counts.done > before.done or message.status in FINAL,
            seconds=3 * within / BUSY,
            why=f"nothing was recorded within {3 * within:g} seconds of the end of the fault",
        )
        print(f"recovered {time.monotonic() - began:.1f} s after the end of the fault")

    async def until_done(self, seconds: float = 60) -> tuple[Message, Counts]:
        return await self.until(
            lambda message, _: message.status in FINAL, seconds=seconds, why="not done"
        )


async def addresses_with(
    services: Services, message: Message, outcome: EmailOutcome
) -> set[Address]:
    return {record.address async for record in services.outcomes.emails(message, outcome)}
