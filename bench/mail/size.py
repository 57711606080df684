"""How much a message adds to a store: what each email leaves behind."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import psycopg

from bench.effort import Effort
from bench.figures import Figure
from bench.mail import pipeline
from postroom.storage import open_store
from postroom.wiring import Services
from tests.services.mail.smtp_sink import running_smtp_sink
from tests.services.stores.postgres import running_postgres

MAILS = 100_000
_MOST_BYTES = 160.0


def figures(effort: Effort) -> list[Figure]:
    mails = effort.size(MAILS, 5000)
    with (
        running_smtp_sink() as sink,
        running_postgres(durable=True) as server,
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name,
    ):
        folder = Path(name)
        grown = {}
        for engine, url in {
            "SQLite": f"sqlite:///{folder}/store.db",
            "PostgreSQL": server.create_database(),
        }.items():
            setup = pipeline.Setup(url, folder, sink.port)
            grown[engine] = asyncio.run(_grow(setup, mails)) / mails
    return [
        Figure(
            f"{engine}, growth of the store per finished email",
            size,
            "bytes",
            target=_MOST_BYTES,
            target_on="value",
            target_is="at most",
        )
        for engine, size in grown.items()
    ]


async def _grow(setup: pipeline.Setup, recipients: int) -> int:
    """Return how many bytes a message has added to the store, once it is done."""
    async with await open_store(setup.store_url) as store:
        await pipeline.fill(Services(store), recipients)
    before = _bytes(setup.store_url)
    await pipeline.send_to_filled(setup, recipients)
    return _bytes(setup.store_url) - before


def _bytes(url: str) -> int:
    """Return the size of the store's files, with all indexes and all rows that are free again."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row
    return int(row[0])
