"""`POST /api/v1/subscribe`, called by wrk, in turns with the bare endpoint."""

from __future__ import annotations

import asyncio
import statistics
import sys
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.web.calling import Turn, call
from bench.web.servers import POSTROOM, serving
from postroom.storage import open_store
from postroom.wiring import Services

ROUNDS = 3
LIST = "news"


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
                settings = {"API_KEY": key, "TURN": str(turn), "LIST": LIST}
                kept.append(call(called, "/api/v1/subscribe", "calls.lua", settings))
    rate, bare_rate = (statistics.median(t.rate for t in turns[1:]) for turns in (ours, bare))
    cpu, bare_cpu = (
        statistics.median(t.cpu_microseconds for t in turns[1:]) for turns in (ours, bare)
    )
    baseline = "bare Starlette, one insert"
    return [
        Figure("POST /subscribe", rate, "calls/s", bare_rate, baseline, 0.55),
        Figure("POST /subscribe, CPU time", cpu, "µs", bare_cpu, baseline, 2.5,
               target_is="at most"),
    ]  # fmt: skip


async def _prepare(folder: Path) -> str:
    """Create a list and a key."""
    async with await open_store(f"sqlite:///{folder}/store.db") as store:
        services = Services(store)
        await services.lists.create(LIST, "News", "news@example.com")
        return (await services.keys.create("wrk", ("subscribe",))).secret


def _our_command(folder: Path) -> list[str]:
    return [str(POSTROOM), "web", "--store", f"sqlite:///{folder}/store.db", "--port"]


def _bare(folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.web.bare", str(folder / "bare.db")]
