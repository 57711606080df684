"""Postroom itself: real processes, from the scheduled message to its completion."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.mail import content
from bench.processes import peak_kilobytes, wait_until_idle
from postroom.domain.messages.messages import FINAL, Message
from postroom.domain.messages.tracking import Track
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import Insert, Operation, open_store
from postroom.wiring import Services
from tests.services.waiting import LOOPBACK, free_ports

_POSTROOM = Path(sys.executable).with_name("postroom")
_FILL_AT_ONCE = 16
_LOOK_SECONDS = 0.02  # how late the end of a message may be seen

SEPARATE = ("scheduler", "sender")
TWO_SENDERS = ("scheduler", "sender", "sender")
ALL_IN_ONE = ("up",)


@dataclass(frozen=True)
class Run:
    """How long one message took, and the memory that it needed."""

    recipients: int
    seconds: float
    peak_kilobytes: dict[str, int]

    @property
    def rate(self) -> float:
        return self.recipients / self.seconds


@dataclass(frozen=True)
class Setup:
    """Where Postroom keeps its data, and the mail server that it sends to."""

    store_url: str
    folder: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    """More environment variables."""
    azure: str = ""
    """The connection string of the account, if the store is on Azure."""

    @contextmanager
    def running(self, parts: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Start Postroom's parts, each in a separate process, and stop them at the end."""
        environment = {
            **os.environ,
            "POSTROOM_STORE": self.store_url,
            "POSTROOM_AZURE_CONNECTION_STRING": self.azure,
            "POSTROOM_DATA": str(self.folder / "data"),
            "POSTROOM_TRANSPORT": f"smtp://{LOOPBACK}:{self.port}",
            "POSTROOM_CANARY_FROM": "0",
            "POSTROOM_PORT": str(free_ports(1)[0]),
            **self.settings,
        }
        processes = []
        try:
            for number, part in enumerate(parts):
                with (self.folder / f"{part}-{number}.log").open("ab") as log:
                    processes.append(
                        subprocess.Popen([_POSTROOM, part], env=environment, stdout=log, stderr=log)
                    )
            yield processes
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(60)


async def send(
    setup: Setup,
    recipients: int,
    kilobytes: int = 2,
    parts: Sequence[str] = SEPARATE,
    *,
    is_personal: bool = False,
    track: Track | None = None,
) -> Run:
    """Send one message to a new list, timed from its scheduling to its completion."""
    async with await open_store(setup.store_url, setup.azure) as store:
        await fill(
            Services(store), recipients, is_personal=is_personal, agreed=track is Track.PERSONAL
        )
    return await send_to_filled(
        setup, recipients, kilobytes, parts, is_personal=is_personal, track=track
    )


async def send_to_filled(
    setup: Setup,
    recipients: int,
    kilobytes: int = 2,
    parts: Sequence[str] = SEPARATE,
    *,
    is_personal: bool = False,
    track: Track | None = None,
) -> Run:
    """Do the same with a list that `fill` has created."""
    async with await open_store(setup.store_url, setup.azure) as store:
        services = Services(store)
        with setup.running(parts) as processes:
            await asyncio.to_thread(wait_until_idle, [process.pid for process in processes])
            started = time.perf_counter()
            message = await schedule(services, kilobytes, is_personal=is_personal, track=track)
            while message.status not in FINAL:
                if any(process.poll() is not None for process in processes):
                    raise RuntimeError(f"a process has died: see {setup.folder}")
                await asyncio.sleep(_LOOK_SECONDS)
                message = await services.messages.get(message.ref)
            seconds = time.perf_counter() - started
            peaks = {
                f"{part} {number}": peak_kilobytes(process.pid)
                for number, (part, process) in enumerate(zip(parts, processes, strict=True))
            }
        counts = await services.outcomes.counts(message)
        assert counts.accepted == counts.planned == recipients, counts
    return Run(recipients, seconds, peaks)


async def schedule(
    services: Services, kilobytes: int, *, is_personal: bool = False, track: Track | None = None
) -> Message:
    """Schedule the message for now, with fields of its recipients if it is personal, and with links
    if it is said how they are tracked."""
    bodies = content.personal_bodies if is_personal else content.bodies
    if track is not None:
        bodies = content.linked_bodies
    return await services.messages.create(
        content.LIST,
        "News",
        bodies(kilobytes),
        datetime.now(UTC),
        options=SendingOptions(track=track),
    )


async def fill(
    services: Services, count: int, *, is_personal: bool = False, agreed: bool = False
) -> None:
    """Create the list with this many confirmed subscribers, with or without fields and consent to
    personal tracking."""
    await services.lists.create(content.LIST, "Contoso's news", content.FROM)
    table = services.store.table(entities.LISTS)
    starts = iter(range(0, count, 50))

    async def insert() -> None:
        for start in starts:
            operations: list[Operation] = []
            for number in range(start, min(start + 50, count)):
                new = msgspec.structs.replace(
                    new_subscriber(content.LIST, content.address(number), verified=True),
                    attributes=content.attributes(number) if is_personal else {},
                    tracking=agreed,
                )
                operations += [
                    Insert(entities.subscriber_entity(new)),
                    Insert(entities.lookup_entity(new)),
                ]
            await table.apply(operations)

    await asyncio.gather(*(insert() for _ in range(_FILL_AT_ONCE)))
