"""The latency of other workers, which are always running."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from procrastinate.types import JSONValue

from bench.host.lines import Line, Lines, stamp
from bench.host.workers import QUEUE, huey_app, procrastinate_app
from postroom.storage import open_store

_BATCH = 1000


@contextmanager
def _worker(folder: Path, *arguments: str) -> Iterator[Lines]:
    lines = Lines(folder / "handled")
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.host.workers", *arguments],
            env={**os.environ, "BENCH_HANDLED": str(lines.path)},
            stdout=log,
            stderr=log,
        )
    try:
        yield lines
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def procrastinate_latencies(url: str, folder: Path, count: int) -> list[Line]:
    app = procrastinate_app(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        with _worker(folder, "procrastinate", url, "1") as lines:
            for number in range(count + 1):
                await app.configure_task("noop").defer_async(body=stamp())
                await lines.wait_for(number + 1)
                await asyncio.sleep(random.uniform(0.005, 0.02))
    return lines.found[1:]


async def procrastinate_throughput(url: str, folder: Path, count: int, concurrency: int) -> float:
    app = procrastinate_app(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        body = stamp()
        for start in range(0, count, _BATCH):
            batch: list[dict[str, JSONValue]] = [{"body": body}] * min(_BATCH, count - start)
            await app.configure_task("noop").batch_defer_async(*batch)
    with _worker(folder, "procrastinate", url, str(concurrency)) as lines:
        await lines.wait_for(count)
    return count / (lines.found[-1].ran - lines.found[0].ran)


async def huey_latencies(folder: Path, count: int) -> list[Line]:
    file = str(folder / "huey.db")
    _, put = huey_app(file)
    with _worker(folder, "huey", file) as lines:
        for number in range(count + 1):
            put(stamp())
            await lines.wait_for(number + 1)
            await asyncio.sleep(random.uniform(0.005, 0.02))
    return lines.found[1:]


async def polling_latencies(url: str, folder: Path, count: int, seconds: float) -> list[Line]:
    """Return latencies of messages put at regular intervals, for a worker that polls."""
    async with await open_store(url) as store:
        with _worker(folder, "polling", url, str(seconds)) as lines:
            for _ in range(count):
                await store.queue(QUEUE).put(stamp())
                await asyncio.sleep(4 * seconds / count)
            await lines.wait_for(count)
    return lines.found
