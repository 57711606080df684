"""Postroom's host, started as a user would start it."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.host.lines import Line, Lines, stamp
from postroom.domain.queues.apps import COMMAND_LINE, App, parse_app
from postroom.storage import MessageToPut, Store, open_store
from postroom.wiring import Services

_POSTROOM = Path(sys.executable).with_name("postroom")
_HANDLERS = Path(__file__).with_name("handlers.py")
_QUEUE = "bench/queue"
_TICKS = os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def running_host(
    url: str, folder: Path, apps: list[App], queues: list[str] | None = None
) -> AsyncIterator[tuple[Store, subprocess.Popen[bytes]]]:
    """Run a host that knows these applications; queues are created first."""
    shutil.copy(_HANDLERS, folder / "handlers.py")
    async with await open_store(url) as store:
        services = Services(store)
        for name in queues or []:
            await store.queue(name).put("to make it")
            await store.queue(name).purge()
        await services.apps.sync(COMMAND_LINE, apps)
        environment = {
            **os.environ,
            "POSTROOM_STORE": url,
            "POSTROOM_DATA": str(folder / "data"),
        }
        process = _start(folder, environment)
        try:
            while not any(report.apps for report in await services.hosts.live()):
                if process.poll() is not None:
                    raise RuntimeError(f"the host has died: see {folder}")
                await asyncio.sleep(0.05)
            yield store, process
        finally:
            process.terminate()
            process.wait(60)


def _start(folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "host.log").open("wb") as log:
        return subprocess.Popen(
            [_POSTROOM, "host"], cwd=folder, env=environment, stdout=log, stderr=log
        )


def app(folder: Path, path: str = "/bench", **values: object) -> App:
    given = {"path": path, "handler": "handlers:process", "max_processes": 1, **values}
    return parse_app(given, folder=str(folder), origin=COMMAND_LINE)


async def latencies(url: str, folder: Path, count: int, *, cold: bool) -> list[Line]:
    """Return latencies, one message at a time. Cold: after the process of the previous one has
    ended."""
    idle = "10ms" if cold else "20m"
    lines = Lines(folder / "handled")
    async with running_host(url, folder, [app(folder, idle_timeout=idle)]) as (store, _):
        for number in range(count + 1):
            await store.queue(_QUEUE).put(stamp())
            await lines.wait_for(number + 1)
            if cold:
                await _until_gone(lines.found[-1].pid)
            await asyncio.sleep(random.uniform(0.005, 0.02))
    return lines.found[1:]  # the first one met a host that had just begun


async def throughput(url: str, folder: Path, count: int, handler: str = "process") -> float:
    """Return the messages per second of one process, from its first to its last."""
    lines = Lines(folder / "handled")
    async with running_host(url, folder, [app(folder, handler=f"handlers:{handler}")]) as (
        store,
        _,
    ):
        body = stamp()
        await store.queue(_QUEUE).put_many([MessageToPut(body)] * count)
        await lines.wait_for(count)
    return count / (lines.found[-1].ran - lines.found[0].ran)


async def idle(url: str, folder: Path, applications: int, seconds: float) -> float:
    """Return the percentage of a core that an idle host uses, with its children."""
    apps = [app(folder, f"/app{number}") for number in range(applications)]
    queues = [f"app{number}" for number in range(applications)]
    async with running_host(url, folder, apps, queues) as (_, process):
        await asyncio.sleep(3.0)  # until it has settled down
        before, began = _cpu(process.pid), time.monotonic()
        await asyncio.sleep(seconds)
        return 100 * (_cpu(process.pid) - before) / (time.monotonic() - began)


async def _until_gone(pid: int) -> None:
    while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240 - nothing tells us
        await asyncio.sleep(0.002)


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / _TICKS + sum(map(_cpu, map(int, children)))
