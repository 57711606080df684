"""The PostgreSQL engine, compared with psycopg on a server that this run starts."""

from __future__ import annotations

import statistics

from bench.effort import Effort
from bench.figures import Figure
from bench.store import bookkeeping, measure, ours
from bench.store.raw_postgres import RawPostgres, put_from_tasks
from postroom.storage import Store, open_store
from tests.services.stores.postgres import PostgresServer

RAW = "raw psycopg"


async def figures(server: PostgresServer, effort: Effort) -> list[Figure]:
    async def make() -> Store:
        return await open_store(server.create_database())

    async def make_twice() -> tuple[Store, Store]:
        url = server.create_database()
        return await open_store(url), await open_store(url)

    raw_url = server.create_database()
    async with await make() as store:
        raw = RawPostgres(raw_url)
        found = await measure.bulk(store, raw, effort, RAW, 0.4)
        raw.close()
        found.append(await puts(store, raw_url, effort))
    found += await bookkeeping.figures(
        make, lambda: RawPostgres(server.create_database()), RAW, effort, bookkeeping.TARGET
    )
    found += await measure.arrivals(make_twice)
    found += await measure.growth(make, effort)
    return found


async def puts(store: Store, raw_url: str, effort: Effort) -> Figure:
    """Let 64 tasks put one message at a time, in turns with the raw driver."""
    ours_took, raw_took = [], []
    for _ in range(effort.turns):
        raw_took.append(await measure.seconds(put_from_tasks(raw_url, 64, 50)))
        ours_took.append(await measure.seconds(ours.put_singly(store, "many", 64, 50)))
    return Figure(
        "durable puts from 64 tasks",
        64 * 50 / statistics.median(ours_took),
        "puts/s",
        64 * 50 / statistics.median(raw_took),
        RAW,
        0.4,
    )
