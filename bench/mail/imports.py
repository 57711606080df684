"""CSV import into SQLite, compared with the raw driver writing the same rows."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import apsw

from bench.effort import Effort
from bench.figures import Figure
from bench.mail import content
from postroom.domain.audience.addresses import address_key
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.services import entities
from postroom.services.audience.files.reading_ahead import CHUNK_LINES
from postroom.storage import codec, open_store
from postroom.storage.checked_tables import key_of, singly
from postroom.storage.contract.tables import Insert
from postroom.wiring import Services

LINES = 200_000
ENOUGH = 100_000  # lines a second
HEADER = "email,verified,first_name,city,age,birthday,plan\n"
FIELDS = [
    Field("city"),
    Field("age", FieldType.INTEGER),
    Field("birthday", FieldType.DATE),
    Field("plan", FieldType.CHOICE, choices=("free", "pro")),
]


def figures(folder: Path, effort: Effort) -> list[Figure]:
    """Import addresses in random order; each line becomes a subscriber and its look-up row."""
    lines = effort.size(LINES)
    numbers = list(range(lines))
    random.Random(1).shuffle(numbers)
    file = folder / "subscribers.csv"
    rows = "".join(f"{content.address(number)},true\n" for number in numbers)
    file.write_text(f"email,verified\n{rows}")
    turn = itertools.count()
    raw, ours = effort.medians(
        lambda: lines / _with_apsw(folder / f"raw{next(turn)}.db", numbers),
        lambda: lines / asyncio.run(import_seconds(folder / f"ours{next(turn)}.db", file, lines)),
    )
    described = folder / "described.csv"
    described.write_text("".join((HEADER, *map(described_line, numbers))))
    bare, full = effort.medians(
        lambda: lines / asyncio.run(import_seconds(folder / f"bare{next(turn)}.db", file, lines)),
        lambda: (
            lines / asyncio.run(import_seconds(folder / f"full{next(turn)}.db", described, lines))
        ),
    )
    what = f"CSV import, {LINES:,} lines"
    return [
        Figure(what, ours, "lines/s", raw, "raw apsw", 0.5, or_value=ENOUGH),
        Figure(f"{what} with five fields", full, "lines/s", bare, "bare addresses", 0.7),
    ]


def described_line(number: int) -> str:
    """Return a line whose cells repeat realistically: many names, some cities, few plans."""
    day = f"{1950 + number % 50}-{number % 9 + 1:02}-{number % 28 + 1:02}"
    plan = "pro" if number % 3 else "free"
    return (
        f"{content.address(number)},true,Name{number % 20_000},City {number % 300},"
        f"{number % 90},{day},{plan}\n"
    )


async def import_seconds(path: Path, file: Path, lines: int | None = None) -> float:
    """Return how long the import of a file into a new store takes."""
    async with await open_store(f"sqlite:///{path}") as store:
        services = Services(store)
        await services.lists.create(content.LIST, "Contoso's news", content.FROM)
        await services.fields.declare(content.LIST, FIELDS)
        started = time.perf_counter()
        with file.open("rb") as opened:
            report = await services.imports.import_csv(content.LIST, opened)
        taken = time.perf_counter() - started
    assert lines in (None, report.added), report
    return taken


def _with_apsw(path: Path, numbers: list[int]) -> float:
    """Write prepared rows in the file's order, many in one transaction."""
    rows = _rows(numbers)
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute(
        "CREATE TABLE list (partition TEXT NOT NULL, row TEXT NOT NULL, etag INTEGER NOT NULL,"
        " properties TEXT NOT NULL, PRIMARY KEY (partition, row)) STRICT, WITHOUT ROWID"
    )
    started = time.perf_counter()
    for start in range(0, len(rows), 2 * CHUNK_LINES):
        with connection:
            connection.executemany(
                "INSERT INTO list VALUES (?, ?, ?, ?)", rows[start : start + 2 * CHUNK_LINES]
            )
    taken = time.perf_counter() - started
    connection.close()
    return taken


def _rows(numbers: list[int]) -> list[tuple[str, str, int, str]]:
    now = datetime.now(UTC)
    made = []
    for number in numbers:
        guids = {address_key(content.address(number)): SubscriberGuid(str(uuid.uuid4()))}
        for insert in singly(entities.new_subscribers(content.LIST, guids, now, now)):
            assert isinstance(insert, Insert)
            partition, row = key_of(insert)
            made.append((partition, row, 1, codec.encode(insert.entity.properties).text))
    return made
