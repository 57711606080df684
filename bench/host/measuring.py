"""The figures of the host: latency of handlers, messages per second, and cost."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bench.effort import Effort
from bench.figures import Figure
from bench.host import others, ours
from bench.host.lines import Line, percentile
from tests.services.stores.postgres import PostgresServer, running_postgres

T = TypeVar("T")

COLD, WARM, POLLED, MANY = 100, 500, 200, 10_000
POLL_SECONDS = 5.0
APPLICATIONS = 100
IDLE_SECONDS = 20

COLD_P99, WARM_P99, IDLE_PERCENT = 250.0, 20.0, 1.0  # the targets: milliseconds, and of a core


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        yield Path(name)


def _in_folder(measure: Callable[[Path], Awaitable[T]]) -> T:
    async def run() -> T:
        with _folder() as folder:
            return await measure(folder)

    return asyncio.run(run())


def _on_sqlite(measure: Callable[[str, Path], Awaitable[T]]) -> T:
    return _in_folder(lambda folder: measure(f"sqlite:///{folder}/store.db", folder))


def _on_postgres(server: PostgresServer, measure: Callable[[str, Path], Awaitable[T]]) -> T:
    return _in_folder(lambda folder: measure(server.create_database(), folder))


def figures(effort: Effort) -> list[Figure]:
    return [*speed(effort), *cost(effort)]


def speed(effort: Effort) -> list[Figure]:
    """Measure from the put to the running handler, for us and for workers that are always
    running."""
    cold_count, warm_count, polled_count = (effort.size(each, 20) for each in (COLD, WARM, POLLED))
    with running_postgres(durable=True) as server:
        cold = {
            "SQLite": _on_sqlite(lambda u, f: ours.latencies(u, f, cold_count, cold=True)),
            "PostgreSQL": _on_postgres(
                server, lambda u, f: ours.latencies(u, f, cold_count, cold=True)
            ),
        }
        warm = {
            "SQLite": _on_sqlite(lambda u, f: ours.latencies(u, f, warm_count, cold=False)),
            "PostgreSQL": _on_postgres(
                server, lambda u, f: ours.latencies(u, f, warm_count, cold=False)
            ),
        }
        procrastinate = _on_postgres(
            server, lambda u, f: others.procrastinate_latencies(u, f, warm_count)
        )
        polled = _on_sqlite(lambda u, f: others.polling_latencies(u, f, polled_count, POLL_SECONDS))
    huey = _in_folder(lambda folder: others.huey_latencies(folder, warm_count // 5))
    others_of = {
        "SQLite": (huey, "huey, always running"),
        "PostgreSQL": (procrastinate, "procrastinate"),
    }
    figures = []
    for engine, lines in cold.items():
        figures += _pair(f"{engine}, cold", lines, polled, "polling every 5 s", COLD_P99)
    for engine, lines in warm.items():
        figures += _pair(f"{engine}, warm", lines, *others_of[engine], WARM_P99)
    return figures


def _pair(
    what: str, lines: list[Line], theirs: list[Line], who: str, target: float
) -> list[Figure]:
    """Return p50 and p99 in milliseconds; the target is for the latter."""
    return [
        Figure(
            f"{what}, {name}",
            1000 * percentile([line.latency for line in lines], part),
            "ms",
            1000 * percentile([line.latency for line in theirs], part),
            who,
            target if name == "p99" else None,
            target_on="value",
            target_is="at most",
        )
        for name, part in (("p50", 0.5), ("p99", 0.99))
    ]


def _procrastinate(server: PostgresServer, count: int, concurrency: int) -> float:
    return _on_postgres(
        server, lambda u, f: others.procrastinate_throughput(u, f, count, concurrency)
    )


def cost(effort: Effort) -> list[Figure]:
    """Measure a no-op handler in one process, and an idle host."""
    many, seconds = effort.size(MANY, 1000), effort.size(IDLE_SECONDS, 2)
    with running_postgres(durable=True) as server:
        theirs = max(_procrastinate(server, many // 5, concurrency) for concurrency in (1, 10))
        served = _on_postgres(server, lambda u, f: ours.throughput(u, f, many))
        awaited = _on_postgres(server, lambda u, f: ours.throughput(u, f, many, "process_async"))
        embedded = _on_sqlite(lambda u, f: ours.throughput(u, f, many))
        idle = {
            "SQLite": _on_sqlite(lambda u, f: ours.idle(u, f, APPLICATIONS, seconds)),
            "PostgreSQL": _on_postgres(server, lambda u, f: ours.idle(u, f, APPLICATIONS, seconds)),
        }
    who = "procrastinate, the better of concurrency 1 and 10"
    figures = [
        Figure("PostgreSQL, plain no-op", served, "messages/s", theirs, who, 1.0),
        Figure("PostgreSQL, async no-op", awaited, "messages/s", theirs, who, 1.0),
        Figure("SQLite, plain no-op", embedded, "messages/s", theirs, who, 1.0),
    ]
    for engine, percent in idle.items():
        figures.append(
            Figure(
                f"{engine}, idle host with {APPLICATIONS} applications",
                percent,
                "% of a core",
                target=IDLE_PERCENT,
                target_on="value",
                target_is="at most",
            )
        )
    return figures
