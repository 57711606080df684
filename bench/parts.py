"""What can be measured, by name, and what the reports say about it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import audience, cost, starting
from bench.effort import FULL, Effort
from bench.figures import Figure
from bench.host import measuring as hosting
from bench.listmonk import measuring as comparison
from bench.listmonk.program import VERSION
from bench.mail import measuring, signing, size
from bench.store import azure, postgres, sqlite
from bench.web import measuring as web
from tests.services.stores.azurite import running_azurite
from tests.services.stores.postgres import running_postgres

_DURABLE = (
    "PostgreSQL runs with `fsync=on` and `synchronous_commit=on`; SQLite with `synchronous=FULL`."
)

SUMMARY = "summary"
REMARKS = {
    "store": "The store compared with the raw driver doing the same work in the same run"
    f" (`make bench`). {_DURABLE}",
    "mail": "A message from its scheduling to its completion (fan-out, composing, SMTP, a record"
    " for each recipient), with real processes into Postfix's `smtp-sink` on the same machine, in"
    f" turns with other clients of the same mail server (`make bench`). {_DURABLE}",
    "growth": "A message from its scheduling to its completion, with real processes on SQLite into"
    f" Postfix's `smtp-sink` on the same machine (`make bench-full`). {_DURABLE}",
    "listmonk": "Postroom in turns with listmonk, on the same PostgreSQL and with the same mail"
    " server (`make bench ARGS='listmonk kill'`): Postroom from scheduling to completion, listmonk"
    " from its first to its last email, with the fastest of the settings that were tried, tracking"
    f" and TLS off. {_DURABLE}",
    "start": "`postroom up` until it serves its first page, with an empty store and with the demo's"
    " data, and while nothing happens (`make bench ARGS=start`).",
    "cost": "What a message costs on Azure Storage, counted against Azurite"
    " (`make bench ARGS=cost`).",
    "audience": "Importing a million subscribers with five fields, counting a rule of three"
    " clauses, and fan-out to a tenth of them, on SQLite (`make bench ARGS=audience`). In CPU time,"
    " so that other programs on the machine do not count.",
    "host": "From putting a message to running its handler, one message at a time: cold (a process"
    " is started for it) and warm. Throughput of a no-op handler in one process, and the cost of an"
    " idle host. Compared with other workers, which are always running, in the same run"
    f" (`make bench`). {_DURABLE}",
    "web": "Sign-ups through the API, called by `wrk` on loopback, next to a bare Starlette"
    " endpoint that does one durable insert with apsw, and hits on tracked links next to a bare"
    " redirect, in turns in the same run (`make bench`)."
    " Client and server share the machine.",
    "pages": "Every page of the administrator, with a million subscribers and a thousand messages"
    " on SQLite, requested 100 times over HTTP, in five batches of which the quickest counts: the"
    " 95th percentile next to the median, the slowest pages first. At the end, a draft is saved as"
    " the editor does it (`make bench ARGS=pages`). Client and server share the machine.",
    SUMMARY: f"Everything that has a target (`make bench ARGS={SUMMARY}`). {_DURABLE}",
}


@dataclass(frozen=True)
class Options:
    effort: Effort = FULL
    listmonk: str = VERSION


@dataclass(frozen=True)
class Part:
    """One table of figures, and the report in `bench/results` that it belongs to."""

    report: str
    title: str
    measure: Callable[[Options], list[Figure]]


def _on_sqlite(options: Options) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        return asyncio.run(sqlite.figures(Path(folder), options.effort))


def _on_postgres(options: Options) -> list[Figure]:
    with running_postgres(durable=True) as server:
        return asyncio.run(postgres.figures(server, options.effort))


def _on_azure(options: Options) -> list[Figure]:
    with running_azurite() as azurite:
        return asyncio.run(azure.figures(azurite.connection_string()))


def _part(report: str, title: str, measure: Callable[[Effort], list[Figure]]) -> Part:
    return Part(report, title, lambda options: measure(options.effort))


PARTS: dict[str, Part] = {
    "sqlite": Part("store", "SQLite", _on_sqlite),
    "postgres": Part("store", "PostgreSQL, fsync=on", _on_postgres),
    "azure": Part("store", "Azure Storage (Azurite)", _on_azure),
    "mail": _part("mail", "2 KB emails, PostgreSQL with fsync=on", measuring.speed),
    "othermail": _part("mail", "Other emails and personal tracking", measuring.other_mails),
    "senders": _part("mail", "Two senders, PostgreSQL with fsync=on", measuring.senders),
    "up": _part("mail", "All in one process tree", measuring.all_in_one),
    "size": _part("mail", "Size of the store", size.figures),
    "bounces": _part("mail", "Signed envelope senders (VERP)", measuring.bounce_domain),
    "signing": _part("mail", "DKIM signatures", signing.figures),
    "imports": _part("mail", "Subscribers", measuring.subscribers),
    "listmonk": Part(
        "listmonk",
        "Speed, PostgreSQL with fsync=on",
        lambda options: comparison.speed(options.effort, options.listmonk),
    ),
    "kill": Part(
        "listmonk",
        "After `kill -9` at half of 20,000 emails, PostgreSQL with fsync=on",
        lambda options: comparison.kills(options.effort, options.listmonk),
    ),
    "host": _part("host", "Hosted applications, PostgreSQL with fsync=on", hosting.figures),
    "web": _part("web", "Sign-ups", web.sign_up_figures),
    "hits": _part("web", "Hits on tracked links", web.hit_figures),
    "pages": _part("pages", "Pages", web.page_figures),
    "start": _part("start", "The first minute", starting.figures),
}
"""What `make bench` measures."""

ON_REQUEST: dict[str, Part] = {
    "growth": _part("growth", "From 10,000 to 1,000,000 recipients", measuring.growth),
    "cost": _part("cost", "Requests to Azure Storage", cost.figures),
    "audience": _part("audience", "A million subscribers with fields", audience.figures),
}
"""Parts that take long, and are measured only if they are named."""

TARGETS = ["mail", "listmonk", "kill", "postgres", "size", "azure", "growth", "senders", "up"]
"""The parts of the summary."""
