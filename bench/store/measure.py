"""What is measured for each engine, and how it is compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from bench.effort import Effort
from bench.figures import Figure
from bench.store import mail, ours
from postroom.storage import Store

PARTITIONS = 1000


class Raw(Protocol):
    """The same work with a driver alone."""

    def write_entities(self, partitions: range) -> None: ...


async def seconds(call: Awaitable[object]) -> float:
    started = time.perf_counter()
    await call
    return time.perf_counter() - started


async def bulk(
    store: Store, raw: Raw, effort: Effort, baseline_is: str, share: float
) -> list[Figure]:
    """Write entities in batches of 100, in turns with the raw driver."""
    our_writes, raw_writes = [], []
    count = effort.size(PARTITIONS, 20)
    for turn in range(effort.turns):
        partitions = range(turn * count, (turn + 1) * count)
        started = time.perf_counter()
        raw.write_entities(partitions)
        raw_writes.append(time.perf_counter() - started)
        our_writes.append(await seconds(ours.write_entities(store, partitions)))
    entities = count * mail.PAGE
    return [
        Figure(
            "entities written in batches of 100",
            entities / statistics.median(our_writes),
            "entities/s",
            entities / statistics.median(raw_writes),
            baseline_is,
            share,
        )
    ]


async def growth(make: Callable[[], Awaitable[Store]], effort: Effort) -> list[Figure]:
    """Measure point read, page read and claim in a table of a million rows, compared with
    10,000."""
    small, large = await make(), await make()
    few, many = 100, effort.size(10_000, 200)
    for store, pages in ((small, few), (large, many)):
        await ours.write_entities(store, range(pages))
        await ours.put_work_items(store, range(pages))
    figures = []
    for what, call, count in (
        ("point read", ours.point_reads, 1000),
        ("page read", ours.page_reads, 300),
        ("claim and release", lambda store, _, n: ours.claims(store, n), 500),
    ):
        times: dict[int, list[float]] = {few: [], many: []}
        for _ in range(2 * effort.turns + 1):
            for store, pages in ((small, few), (large, many)):
                times[pages].append(await seconds(call(store, pages, count)) / count * 1e6)
        figures.append(
            Figure(
                f"{what} at 1,000,000 entities",
                statistics.median(times[many]),
                "µs",
                statistics.median(times[few]),
                "at 10,000",
                1.5,
                target_is="at most",
            )
        )
    for store in (small, large):
        await store.close()
    return figures


async def arrivals(make_twice: Callable[[], Awaitable[tuple[Store, Store]]]) -> list[Figure]:
    """Measure from the beginning of a put to the end of a wait in another store object."""
    putting, waiting = await make_twice()
    delays = sorted(await ours.arrival_delays(putting, waiting, 200))
    for store in (putting, waiting):
        await store.close()
    figures = []
    for name, position in (("median", 100), ("99th of 100", 198)):
        figures.append(
            Figure(
                f"put → noticed elsewhere, {name}",
                delays[position] * 1000,
                "ms",
                target=20,
                target_on="value",
                target_is="at most",
            )
        )
    return figures
