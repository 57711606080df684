"""`POST /api/v1/subscribe`, called by wrk, in turns with the bare endpoint."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.web.servers import POSTROOM, Server, serving
from postroom.storage import open_store
from postroom.wiring import Services
from tests.services.waiting import LOOPBACK

ROUNDS = 3
SECONDS = 5
CONNECTIONS = 32
LIST = "news"
_CALLS = Path(__file__).with_name("calls.lua")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Turn:
    """What one run of wrk against one server has shown."""

    calls: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.calls / self.seconds

    @property
    def cpu_microseconds(self) -> float:
        return self.cpu_seconds / self.calls * 1e6


def figures(folder: Path, effort: Effort) -> list[Figure]:
    key = asyncio.run(_prepare(folder))
    ours: list[Turn] = []
    bare: list[Turn] = []
    data = folder / "data"
    with (
        serving(_our_command(folder), folder, data) as server,
        serving(_bare(folder), folder, data) as plain,
    ):
        for turn in range(effort.size(ROUNDS, 1) + 1):  # the first one warms up
            for kept, called in ((bare, plain), (ours, server)):
                kept.append(_call(called, key, str(turn)))
    rate, bare_rate = (statistics.median(t.rate for t in turns[1:]) for turns in (ours, bare))
    cpu, bare_cpu = (
        statistics.median(t.cpu_microseconds for t in turns[1:]) for turns in (ours, bare)
    )
    baseline = "bare Starlette, one insert"
    return [
        Figure("POST /subscribe", rate, "calls/s", bare_rate, baseline, 0.55),
        Figure("POST /subscribe, processor time", cpu, "µs", bare_cpu, baseline, 2.5,
               target_is="at most"),
    ]  # fmt: skip


async def _prepare(folder: Path) -> str:
    """A list and a key."""
    async with await open_store(f"sqlite:///{folder}/store.db") as store:
        services = Services(store)
        await services.lists.create(LIST, "News", "news@example.com")
        return (await services.keys.create("wrk", ("subscribe",))).secret


def _our_command(folder: Path) -> list[str]:
    return [str(POSTROOM), "web", "--store", f"sqlite:///{folder}/store.db", "--port"]


def _bare(folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.web.bare", str(folder / "bare.db")]


def _call(server: Server, key: str, turn: str) -> Turn:
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("wrk is missing: apt-get install wrk")
    before = _cpu_seconds(server.pid)
    done = subprocess.run(
        [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--timeout", "30s", "-s", _CALLS,
         f"http://{LOOPBACK}:{server.port}/api/v1/subscribe"],
        env={**os.environ, "API_KEY": key, "TURN": turn, "LIST": LIST},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    used = _cpu_seconds(server.pid) - before
    result = done.stdout.rpartition("RESULT ")[2].split()
    calls, microseconds, refused, broken = map(int, result)
    if refused or broken:
        raise RuntimeError(f"of {calls} calls {refused} were refused, and {broken} broke off")
    return Turn(calls, microseconds / 1e6, used)


def _cpu_seconds(pid: int) -> float:
    """The processor time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
