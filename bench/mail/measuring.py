"""The figures of the mail pipeline, each compared with the limit or another client in the same
run."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.mail import baselines, imports, pipeline
from bench.mail.pipeline import ALL_IN_ONE, SEPARATE, TWO_SENDERS, Setup
from postroom.domain.messages.tracking import Track
from tests.services.mail.recording_smtp import running_recording_smtp
from tests.services.mail.smtp_sink import running_smtp_sink
from tests.services.stores.azurite import running_azurite
from tests.services.stores.postgres import PostgresServer, running_postgres

MAILS = 100_000
SLOW_MAILS = 10_000
SIZES = (10_000, 100_000, 1_000_000)
LIMIT = "raw pipelined limit"
_NO_SETTINGS: Mapping[str, str] = {}
_BOUNCES = {"POSTROOM_BOUNCE_DOMAIN": "bounce.contoso.example"}


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        yield Path(name)


def on_sqlite(
    port: int,
    recipients: int,
    kilobytes: int = 2,
    parts: Sequence[str] = SEPARATE,
    *,
    is_personal: bool = False,
    track: Track | None = None,
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> pipeline.Run:
    with _folder() as folder:
        setup = Setup(f"sqlite:///{folder}/store.db", folder, port, settings)
        sending = pipeline.send(
            setup, recipients, kilobytes, parts, is_personal=is_personal, track=track
        )
        return asyncio.run(sending)


def on_postgres(
    server: PostgresServer, port: int, recipients: int, parts: Sequence[str] = SEPARATE
) -> pipeline.Run:
    url = server.create_database()
    with _folder() as folder:
        run = asyncio.run(pipeline.send(Setup(url, folder, port), recipients, parts=parts))
    server.drop_database(url)
    return run


def speed(effort: Effort) -> list[Figure]:
    """Send emails of 2 KB into `smtp-sink`: fan-out, composing, sending, a record for each
    recipient; also with three merge fields in each."""
    mails = effort.size(MAILS)
    with running_smtp_sink() as sink, running_postgres(durable=True) as server:
        limit, embedded, personal, served, eight, many, threads, source = effort.medians(
            lambda: baselines.pipelined(sink.port, mails, 2),
            lambda: on_sqlite(sink.port, mails).rate,
            lambda: on_sqlite(sink.port, mails, is_personal=True).rate,
            lambda: on_postgres(server, sink.port, mails).rate,
            lambda: baselines.with_aiosmtplib(sink.port, mails // 10, 2, 8),
            lambda: baselines.with_aiosmtplib(sink.port, mails // 10, 2, 32),
            lambda: baselines.with_smtplib(sink.port, mails // 10, 2, 10),
            lambda: baselines.with_smtp_source(sink.port, mails // 4, 2, 10),
        )
        cloud = _on_azurite(sink.port, effort.size(2000))
    return [
        Figure("SQLite", embedded, "emails/s", limit, LIMIT, 0.75),
        Figure("SQLite", embedded, "emails/s", max(eight, many), "aiosmtplib", 3),
        Figure("SQLite, three merge fields", personal, "emails/s", embedded, "none", 0.9),
        Figure("PostgreSQL", served, "emails/s", limit, LIMIT, 0.65),
        Figure("Azurite, 2,000 recipients", cloud, "emails/s", limit, LIMIT),
        Figure("aiosmtplib, 8 connections", eight, "emails/s", limit, LIMIT),
        Figure("aiosmtplib, 32 connections", many, "emails/s", limit, LIMIT),
        Figure("smtplib, 10 threads", threads, "emails/s", limit, LIMIT),
        Figure("Postfix smtp-source, 10 sessions", source, "emails/s", limit, LIMIT),
    ]


def _on_azurite(port: int, recipients: int) -> float:
    with running_azurite() as azurite, _folder() as folder:
        setup = Setup("azure://", folder, port, azure=azurite.connection_string())
        return asyncio.run(pipeline.send(setup, recipients)).rate


def other_mails(effort: Effort) -> list[Figure]:
    """Send emails of 40 KB, emails with personal links, and to a server that waits 50 ms for each
    reply."""
    mails = effort.size(MAILS)
    with running_smtp_sink() as sink:
        large, large_other, tracked, untracked = effort.medians(
            lambda: on_sqlite(sink.port, effort.size(20_000), 40).rate,
            lambda: baselines.with_aiosmtplib(sink.port, effort.size(5_000), 40, 8),
            lambda: on_sqlite(sink.port, mails, track=Track.PERSONAL).rate,
            lambda: on_sqlite(sink.port, mails, track=Track.OFF).rate,
        )
    with running_recording_smtp(delay=0.05, keep_content=False) as slow:
        waiting, waiting_other = effort.medians(
            lambda: on_sqlite(slow.port, effort.size(1_000)).rate,
            lambda: baselines.with_aiosmtplib(slow.port, effort.size(200), 2, 8),
        )
    return [
        Figure("40 KB emails", large, "emails/s", large_other, "aiosmtplib, 8 connections"),
        Figure("personal tracking, five links", tracked, "emails/s", untracked, "off", 0.9),
        Figure(
            "a server that takes 50 ms for each reply",
            waiting,
            "emails/s",
            waiting_other,
            "aiosmtplib, 8 connections",
        ),
    ]


def bounce_domain(effort: Effort) -> list[Figure]:
    """Compare a signed envelope sender for each email with the From address for all, in turns."""
    mails = effort.size(MAILS)
    with running_smtp_sink() as sink:
        signed, plain = effort.medians(
            lambda: on_sqlite(sink.port, mails, settings=_BOUNCES).rate,
            lambda: on_sqlite(sink.port, mails).rate,
        )
    return [Figure("a bounce domain (VERP)", signed, "emails/s", plain, "none", 0.97)]


def senders(effort: Effort) -> list[Figure]:
    """Add a second sender, when most of the time is spent waiting for the mail server."""
    mails = effort.size(SLOW_MAILS, 400)
    with (
        running_postgres(durable=True) as server,
        running_recording_smtp(delay=0.05, keep_content=False) as slow,
    ):
        one, two = effort.medians(
            lambda: on_postgres(server, slow.port, mails).rate,
            lambda: on_postgres(server, slow.port, mails, TWO_SENDERS).rate,
        )
    what = "PostgreSQL, two senders, a mail server that takes 50 ms for each reply"
    return [Figure(what, two, "emails/s", one, "one sender", 1.9)]


def all_in_one(effort: Effort) -> list[Figure]:
    """Run `postroom up` on SQLite, where the host starts the sender when there is work."""
    mails = effort.size(MAILS)
    with running_smtp_sink() as sink:
        together, separate = effort.medians(
            lambda: on_sqlite(sink.port, mails, parts=ALL_IN_ONE).rate,
            lambda: on_sqlite(sink.port, mails).rate,
        )
    what = "`postroom up` on SQLite"
    return [Figure(what, together, "emails/s", separate, "scheduler and sender apart", 0.95)]


def subscribers(effort: Effort) -> list[Figure]:
    """Import lines of a CSV file, compared with the raw driver writing the same rows."""
    with _folder() as folder:
        return imports.figures(folder, effort)


def growth(effort: Effort) -> list[Figure]:
    """Send to more and more recipients: the rate must not fall, and memory must not grow."""
    with running_smtp_sink() as sink:
        runs = [
            {size: on_sqlite(sink.port, effort.size(size)) for size in SIZES}
            for _ in range(effort.turns)
        ]
    rates = {size: statistics.median(turn[size].rate for turn in runs) for size in SIZES}
    smallest = SIZES[0]
    figures = []
    for size in SIZES[1:]:
        figures.append(
            Figure(f"{size:,} recipients", rates[size], "emails/s", rates[smallest], "10,000", 0.95)
        )
        for part in runs[0][size].peak_kilobytes:
            large, small = (
                statistics.median(turn[each].peak_kilobytes[part] / 1024 for turn in runs)
                for each in (size, smallest)
            )
            figures.append(
                Figure(
                    f"{size:,} recipients, peak memory of the {part.split()[0]}",
                    large,
                    "MiB",
                    small,
                    "10,000",
                    1.1,
                    target_is="at most",
                )
            )
    return figures
