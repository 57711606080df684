"""A host as it really runs: `postroom host`, a folder with handlers, and what they wrote down."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postroom.domain.queues.apps import COMMAND_LINE, App, parse_app
from postroom.domain.queues.queue_names import SUFFIXES
from postroom.services.queues.hosts import AppStatus
from postroom.storage import Store
from postroom.wiring import Services
from tests.contract.conftest import StoreAddress
from tests.services.waiting import BUSY, until

HANDLERS = Path(__file__).with_name("host_handlers.py")
HOST_PROGRAM = Path(__file__).with_name("host_program.py")
SECRET_KEY = "a secret of more than thirty-two characters"
"""For hosts whose applications have an environment, which is encrypted."""
KILLED_LEASE = "4s"
"""The `host_lease` where hosts are killed: a live host on a busy machine keeps its messages, and
those of a dead host are soon free."""
PATIENCE = 60.0 * BUSY
"""Seconds until a condition that must come true counts as missed."""


@dataclass(frozen=True)
class Handled:
    """One line that a handler wrote."""

    event: str
    handler: str
    pid: int
    at: float
    id: str
    queue: str
    attempt: int
    body: str
    properties: dict[str, str]


@dataclass
class Hosting:
    """The hosts of one test, and the folder in which they run."""

    address: StoreAddress
    folder: Path
    services: Services
    settings: dict[str, str] = field(default_factory=dict)
    breaker_pause: float = 0.1
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _handled: list[Handled] = field(default_factory=list)
    _read: int = 0

    def __post_init__(self) -> None:
        shutil.copy(HANDLERS, self.folder / "handlers.py")

    @property
    def store(self) -> Store:
        return self.services.store

    # -- processes ---------------------------------------------------------------------------

    def begin(self) -> subprocess.Popen[bytes]:
        """`postroom host`, with its log in the folder."""
        with (self.folder / f"host-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, HOST_PROGRAM, str(self.breaker_pause), "host"],
                cwd=self.folder,
                env={**os.environ, **self.address.environment, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    async def start(self) -> subprocess.Popen[bytes]:
        """Start a host and wait for its first heartbeat."""
        process = self.begin()

        async def is_live() -> bool:
            assert process.poll() is None, self.logs()
            return any(f"-{process.pid}-" in host.id for host in await self.services.hosts.live())

        await self.until(is_live, "the host lives")
        return process

    async def stop(self, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM, and the exit status."""
        process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(process.wait, PATIENCE)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def kill_all(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            self.kill(process)

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')}"
            for path in sorted(self.folder.glob("host-*.log"))
        )

    def _environment(self) -> dict[str, str]:
        settings = {
            "store": self.address.url,
            "data": str(self.folder / "data"),
            "host_lease": "15s",
            **self.settings,
        }
        return {f"POSTROOM_{name.upper()}": value for name, value in settings.items()}

    # -- applications and messages -----------------------------------------------------------

    def app(self, path: str, **values: object) -> App:
        given: dict[str, object] = {"path": path, **values}
        if "command" not in given:
            given.setdefault("handler", "handlers:one")
        return parse_app(given, folder=str(self.folder), origin=COMMAND_LINE)

    async def add(self, path: str, **values: object) -> App:
        """Register an application, which a running host takes up at once."""
        app = self.app(path, **values)
        await self.services.apps.add(app)
        return app

    async def until_known(self, *paths: str) -> None:
        """Wait until every live host has these applications, and only these, besides our own."""

        async def are_known() -> bool:
            hosts = await self.services.hosts.live()
            known = [
                {status.path for status in host.apps if not status.path.startswith("/mail/")}
                for host in hosts
            ]
            return bool(known) and all(each == set(paths) for each in known)

        await self.until(are_known, f"hosts know {paths}")

    async def put(self, queue: str, *bodies: str) -> list[str]:
        return await self.store.queue(queue).put_many(list(bodies))

    async def run_program_with_children(self) -> list[int]:
        """Let a program start a child and a daemon, once; return their process ids."""
        program = self.folder / "program"
        program.write_text(
            "#!/bin/sh\n"
            "[ -e daemon ] && exit 0\n"
            "sleep 600 &\n"
            "echo $! > child.part; mv child.part child\n"
            "setsid sleep 600 &\n"
            "echo $! > daemon.part; mv daemon.part daemon\n"
            "wait\n"
        )
        program.chmod(0o755)
        await self.add("/shop", command=["./program"])
        await self.put("shop/orders", "go")
        files = [self.folder / "child", self.folder / "daemon"]
        await self.until(lambda: all(file.exists() for file in files), "it runs")
        pids = [int(file.read_text()) for file in files]
        assert all(map(is_alive, pids))
        return pids

    def touch(self, name: str) -> None:
        (self.folder / name).touch()

    # -- what came of it ---------------------------------------------------------------------

    def handled(self, event: str | None = None) -> list[Handled]:
        """What handlers wrote down, in order."""
        path = self.folder / "handled.jsonl"
        if path.exists():
            with path.open("rb") as file:
                file.seek(self._read)
                *whole, rest = file.read().split(b"\n")
                self._read = file.tell() - len(rest)
            self._handled += [Handled(**json.loads(line)) for line in whole]
        return [each for each in self._handled if event is None or each.event == event]

    def ended(self, body: str | None = None) -> list[Handled]:
        return [each for each in self.handled("end") if body is None or each.body == body]

    def begun(self, body: str | None = None) -> list[Handled]:
        return [each for each in self.handled("begin") if body is None or each.body == body]

    async def until(
        self, is_so: Callable[[], bool | Awaitable[bool]], what: str, seconds: float = PATIENCE
    ) -> None:
        """Wait for a condition; the logs are shown when it does not come true."""
        await until(is_so, lambda: f"{what}\n{self.logs()}", seconds / BUSY)

    async def until_ended(self, *bodies: str, within: float = PATIENCE) -> None:
        """Wait until each of these was handled to its end at least once."""
        await self.until(
            lambda: {each.body for each in self.ended()} >= set(bodies), f"handled {bodies}", within
        )

    async def until_begun(self, count: int, body: str | None = None) -> None:
        """Wait until so many attempts have begun, of messages with this body or of all."""
        await self.until(lambda: len(self.begun(body)) >= count, f"{count} attempts have begun")

    async def until_gone(self, *pids: int) -> None:
        """Wait until none of these processes is there any more."""
        await self.until(lambda: not any(map(is_alive, pids)), f"{pids} are gone")

    async def until_empty(self, *queues: str) -> None:
        async def are_empty() -> bool:
            return not sum(await self.lengths(queues))

        await self.until(are_empty, f"{queues} are empty")

    async def until_length(self, queue: str, length: int, within: float = PATIENCE) -> None:
        async def is_it() -> bool:
            return (await self.store.queue(queue).info()).length == length

        await self.until(is_it, f"{length} messages in {queue}", within)

    async def lengths(self, queues: Collection[str]) -> list[int]:
        return [(await self.store.queue(queue).info()).length for queue in queues]

    async def copies(self, queue: str) -> int:
        """The messages in a queue and in all that belong to it."""
        return sum(await self.lengths([queue, *(queue + suffix for suffix in SUFFIXES)]))

    async def status(self, path: str) -> list[AppStatus]:
        """What the live hosts say about an application."""
        return [
            status
            for host in await self.services.hosts.live()
            for status in host.apps
            if status.path == path
        ]

    async def until_status(self, path: str, is_so: Callable[[AppStatus], bool], what: str) -> None:
        async def says() -> bool:
            return any(map(is_so, await self.status(path)))

        await self.until(says, f"{path}: {what}")

    def times_handled(self) -> Counter[str]:
        return Counter(each.body for each in self.ended())


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not reaped yet does not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX"


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def toml(**values: Any) -> str:
    """One `[[apps]]` section."""
    return "[[apps]]\n" + "".join(f"{name} = {json.dumps(each)}\n" for name, each in values.items())
