"""The embedded engine, compared with apsw."""

from __future__ import annotations

import itertools
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.store import bookkeeping, measure, one_step, ours
from bench.store.raw_sqlite import RawSqlite
from postroom.storage import Store, open_store

RAW = "raw apsw"


async def figures(folder: Path, effort: Effort) -> list[Figure]:
    numbers = itertools.count()

    async def make() -> Store:
        return await open_store(f"sqlite:///{folder}/growth{next(numbers)}.db")

    async def make_twice() -> tuple[Store, Store]:
        url = f"sqlite:///{folder}/arrivals.db"
        return await open_store(url), await open_store(url)

    for_one_step = RawSqlite(folder / "one-step.db")
    one_step_figure = one_step.figure(for_one_step)
    for_one_step.close()
    async with await open_store(f"sqlite:///{folder}/ours.db") as store:
        raw = RawSqlite(folder / "raw.db")
        found = await measure.bulk(store, raw, effort, RAW, 0.5)
        raw.close()
        one = 2000 / await measure.seconds(ours.put_singly(store, "one", 1, 2000))
        many = 64 * 300 / await measure.seconds(ours.put_singly(store, "many", 64, 300))
        found.append(Figure("durable puts from 64 tasks", many, "puts/s", one, "from one task", 5))
    found.append(one_step_figure)
    found += await bookkeeping.figures(
        make, lambda: RawSqlite(folder / f"raw{next(numbers)}.db"), RAW, effort
    )
    found += await measure.arrivals(make_twice)
    found += await measure.growth(make, effort)
    return found
