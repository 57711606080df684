"""The figures of the mail pipeline: each beside the limit and beside others, in the same run."""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Figure
from bench.mail import baselines, imports, pipeline
from tests.services.azurite import running_azurite
from tests.services.postgres import running_postgres
from tests.services.recording_smtp import running_recording_smtp
from tests.services.smtp_sink import running_smtp_sink

MAILS = 100_000
TURNS = 3
SIZES = (10_000, 100_000, 1_000_000)
LIMIT = "raw pipelined limit"
_numbers = itertools.count()


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        yield Path(name)


def on_sqlite(port: int, recipients: int, kilobytes: int = 2) -> pipeline.Run:
    with _folder() as folder:
        url = f"sqlite:///{folder}/store.db"
        return asyncio.run(pipeline.send(url, folder, port, recipients, kilobytes))


def on_postgres(url: str, port: int, recipients: int, senders: int = 1) -> pipeline.Run:
    with _folder() as folder:
        return asyncio.run(pipeline.send(url, folder, port, recipients, 2, senders))


def speed() -> list[Figure]:
    """2 KB mails into `smtp-sink`: fan-out, composing, sending, a record for each recipient.

    The limit and Postroom on SQLite take turns: the middle one of each counts.
    """
    with running_smtp_sink() as sink:
        limits, turns = [], []
        for _ in range(TURNS):
            limits.append(baselines.pipelined(sink.port, MAILS, 2))
            turns.append(on_sqlite(sink.port, MAILS).rate)
        limit, embedded = statistics.median(limits), statistics.median(turns)
        eight = baselines.with_aiosmtplib(sink.port, MAILS // 10, 2, 8)
        many = baselines.with_aiosmtplib(sink.port, MAILS // 10, 2, 32)
        threads = baselines.with_smtplib(sink.port, MAILS // 10, 2, 10)
        source = baselines.with_smtp_source(sink.port, MAILS // 4, 2, 10)
        with running_postgres() as server:
            served = on_postgres(server.create_database(), sink.port, MAILS // 2).rate
            two = on_postgres(server.create_database(), sink.port, MAILS // 2, senders=2).rate
        cloud = _on_azurite(sink.port)
    return [
        Figure("SQLite", embedded, "emails/s", limit, LIMIT, 0.5),
        Figure("SQLite", embedded, "emails/s", max(eight, many), "aiosmtplib", 3),
        Figure("PostgreSQL", served, "emails/s", limit, LIMIT, 0.25),
        Figure("PostgreSQL, two senders", two, "emails/s", served, "one sender"),
        Figure("Azurite, 2,000 recipients", cloud, "emails/s", limit, LIMIT),
        Figure("aiosmtplib, 8 connections", eight, "mails/s", limit, LIMIT),
        Figure("aiosmtplib, 32 connections", many, "mails/s", limit, LIMIT),
        Figure("smtplib, 10 threads", threads, "mails/s", limit, LIMIT),
        Figure("Postfix smtp-source, 10 sessions", source, "mails/s", limit, LIMIT),
    ]


def _on_azurite(port: int) -> float:
    with running_azurite() as azurite, _folder() as folder:
        os.environ["POSTROOM_AZURE_CONNECTION_STRING"] = azurite.connection_string()
        return asyncio.run(pipeline.send("azure://", folder, port, 2000, 2)).rate


def other_mails() -> list[Figure]:
    """40 KB mails, and a server that waits 50 ms before each reply."""
    with running_smtp_sink() as sink:
        large = on_sqlite(sink.port, 20_000, 40).rate
        large_other = baselines.with_aiosmtplib(sink.port, 5_000, 40, 8)
    with running_recording_smtp(delay=0.05, keep_content=False) as slow:
        waiting = on_sqlite(slow.port, 1_000).rate
        waiting_other = baselines.with_aiosmtplib(slow.port, 200, 2, 8)
    return [
        Figure("40 KB mails", large, "emails/s", large_other, "aiosmtplib, 8 connections"),
        Figure(
            "a server that takes 50 ms for each reply",
            waiting,
            "emails/s",
            waiting_other,
            "aiosmtplib, 8 connections",
        ),
    ]


def subscribers() -> list[Figure]:
    """Lines of a CSV file into a list, beside the raw driver writing the same rows."""
    with _folder() as folder:
        return imports.figures(folder)


def growth() -> list[Figure]:
    """The same with more and more recipients: the rate must not fall, nor memory grow."""
    with running_smtp_sink() as sink:
        runs = {size: on_sqlite(sink.port, size) for size in SIZES}
    first = runs[SIZES[0]]
    figures = []
    for size, run in list(runs.items())[1:]:
        figures.append(
            Figure(f"{size:,} recipients", run.rate, "emails/s", first.rate, "10,000", 0.9)
        )
        for part, peak in run.peak_kilobytes.items():
            figures.append(
                Figure(
                    f"{size:,} recipients, most memory of the {part.split()[0]}",
                    peak / 1024,
                    "MiB",
                    first.peak_kilobytes[part] / 1024,
                    "10,000",
                    1.2,
                    target_is="at most",
                )
            )
    return figures
