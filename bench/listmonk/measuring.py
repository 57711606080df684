"""Postroom and listmonk in turns: emails per second, memory, and what is left after `kill -9`."""

from __future__ import annotations

import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.listmonk import killing
from bench.listmonk.installation import CANDIDATES, DEFAULT_BATCH, Installation, Tuning
from bench.listmonk.program import Listmonk, build
from bench.mail import pipeline
from bench.mail.arrivals import watched
from bench.processes import peak_kilobytes
from tests.services.mail.recording_smtp import running_recording_smtp
from tests.services.mail.smtp_sink import SmtpSink, running_smtp_sink
from tests.services.stores.postgres import PostgresServer, running_postgres

MAILS = 100_000
KILLED_OF = 20_000
COMPARED_SINCE = 6  # the major version that the target is about
_FINISH_SECONDS = 600
_QUIET_SECONDS = 1.0


@dataclass(frozen=True)
class Run:
    rate: float
    peak_megabytes: float
    bytes_per_email: float


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        yield Path(name)


def speed(effort: Effort, version: str) -> list[Figure]:
    """Measure listmonk from its first to its last email, with its fastest settings, and Postroom
    from scheduling to completion. `Skipped`."""
    listmonk = build(version)
    mails = effort.size(MAILS)
    with running_postgres(durable=True) as server, running_smtp_sink() as sink:
        release = _release(version, listmonk, server)
        first = {
            tuning: _listmonk(listmonk, server, sink, tuning, mails).rate for tuning in CANDIDATES
        }
        best = max(first, key=lambda tuning: first[tuning])
        ours, theirs = [], []
        for _ in range(effort.turns):
            theirs.append(_listmonk(listmonk, server, sink, best, mails))
            ours.append(_postroom(server, sink, mails))
    name = f"listmonk {release}, {best}"
    major = int(release.removeprefix("v").split(".")[0])
    return [
        Figure(
            "PostgreSQL",
            statistics.median(run.rate for run in ours),
            "emails/s",
            statistics.median(run.rate for run in theirs),
            name,
            2.5 if major >= COMPARED_SINCE else None,
        ),
        Figure(
            "PostgreSQL, peak memory",
            statistics.median(run.peak_megabytes for run in ours),
            "MB",
            statistics.median(run.peak_megabytes for run in theirs),
            name,
        ),
        Figure(
            "bytes that the mail server reads per email",
            statistics.median(run.bytes_per_email for run in ours),
            "bytes",
            statistics.median(run.bytes_per_email for run in theirs),
            name,
        ),
    ]


def kills(effort: Effort, version: str) -> list[Figure]:
    """Kill each at half of its emails, start it again, and compare every address. `Skipped`."""
    listmonk = build(version)
    recipients = effort.size(KILLED_OF, 2000)
    with running_postgres(durable=True) as server:
        release = _release(version, listmonk, server)
        with running_recording_smtp(keep_content=False) as mail_server, _folder() as folder:
            setup = pipeline.Setup(server.create_database(), folder, mail_server.port)
            ours = asyncio.run(killing.kill_postroom(setup, mail_server, recipients))
        theirs = {}
        for tuning in (CANDIDATES[0], DEFAULT_BATCH):
            with running_recording_smtp(keep_content=False) as mail_server, _folder() as folder:
                installation = Installation(listmonk, server.create_database(), folder)
                installation.set_up(mail_server.port, tuning, recipients, 2)
                theirs[tuning] = killing.kill_listmonk(installation, mail_server, recipients)
    figures = []
    for tuning, toll in theirs.items():
        name = f"listmonk {release}, {tuning}"
        figures += [
            _at_most_none("skipped", ours.skipped, toll.skipped, name),
            Figure("sent twice", ours.duplicated, "emails", toll.duplicated, name),
            _at_most_none("sent twice and not marked", ours.silent, toll.silent, name),
        ]
    return [*figures, Figure("marked as possible duplicates", ours.marked, "emails")]


def _at_most_none(what: str, ours: int, theirs: int, name: str) -> Figure:
    return Figure(
        what, ours, "emails", theirs, name, target=0, target_on="value", target_is="at most"
    )


def _release(version: str, listmonk: Listmonk, server: PostgresServer) -> str:
    """Return the name of the release; for a commit, the one that its tables name."""
    if re.fullmatch(r"v\d+\.\d+\.\d+", version):
        return version
    with _folder() as folder:
        return Installation(listmonk, server.create_database(), folder).release()


def _listmonk(
    listmonk: Listmonk, server: PostgresServer, sink: SmtpSink, tuning: Tuning, mails: int
) -> Run:
    url = server.create_database()
    with _folder() as folder:
        installation = Installation(listmonk, url, folder)
        installation.set_up(sink.port, tuning, mails, 2)
        with watched(sink.pid) as arrivals, installation.running() as process:
            installation.wait_until_finished(process, _FINISH_SECONDS)
            while arrivals.quiet_for() < _QUIET_SECONDS:
                time.sleep(0.1)
            peak = peak_kilobytes(process.pid) * 1024 / 1e6
    server.drop_database(url)
    return Run(mails / arrivals.seconds, peak, arrivals.bytes_read / mails)


def _postroom(server: PostgresServer, sink: SmtpSink, mails: int) -> Run:
    url = server.create_database()
    with _folder() as folder, watched(sink.pid) as arrivals:
        run = asyncio.run(pipeline.send(pipeline.Setup(url, folder, sink.port), mails))
    server.drop_database(url)
    peak = sum(run.peak_kilobytes.values()) * 1024 / 1e6
    return Run(run.rate, peak, arrivals.bytes_read / mails)
