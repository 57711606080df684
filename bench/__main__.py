"""`make bench`: everything; `make bench ARGS=sqlite` for a part of it.

Each figure stands beside a baseline that was measured in the same run: ratios travel to other
machines, absolute figures do not.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import cost, figures, plots, starting
from bench.figures import Figure
from bench.host import measuring as hosting
from bench.mail import measuring
from bench.store import azure, postgres, sqlite
from bench.web import measuring as web
from tests.services.azurite import running_azurite
from tests.services.postgres import running_postgres

STORE_REMARK = (
    "The store beside the raw driver doing the same work in the same run (`make bench`)."
    " PostgreSQL runs with `fsync=off`, as in the tests; SQLite with `synchronous=FULL`."
)
MAIL_REMARK = (
    "The whole way of a message, from its scheduling to its archive (fan-out, composing, SMTP, a"
    " record for each recipient), with real processes into Postfix's `smtp-sink` on the same"
    " machine, beside other ways into the same server in the same run (`make bench`)."
)
HOST_REMARK = (
    "From the put of a message to its handler running, one message at a time: cold, when a process"
    " is started for it, and warm; throughput of a no-op handler in one process; what a host costs"
    " that has nothing to do. Beside workers of others that are always on, in the same run"
    " (`make bench`)."
)

WEB_REMARK = (
    "Sign-ups through the API, called by `wrk` on loopback, beside a bare Starlette endpoint that"
    " does one durable insert with apsw, in turns in the same run; and the administrator's pages"
    " with a million subscribers and a thousand messages (`make bench`). Client and server share"
    " the machine."
)
START_REMARK = (
    "`postroom up` with an empty store: until its first page is answered, and while nothing happens"
    " (`make bench ARGS=start`)."
)
COST_REMARK = (
    "What a message costs on Azure Storage, counted against Azurite (`make bench ARGS=cost`)."
)


def on_sqlite() -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        return asyncio.run(sqlite.figures(Path(folder)))


def on_postgres() -> list[Figure]:
    with running_postgres() as server:
        return asyncio.run(postgres.figures(server))


def on_azure() -> list[Figure]:
    with running_azurite() as azurite:
        os.environ["POSTROOM_AZURE_CONNECTION_STRING"] = azurite.connection_string()
        return asyncio.run(azure.figures())


# name → (report, title, what measures it)
PARTS: dict[str, tuple[str, str, Callable[[], list[Figure]]]] = {
    "sqlite": ("store", "SQLite", on_sqlite),
    "postgres": ("store", "PostgreSQL", on_postgres),
    "azure": ("store", "Azure Storage (Azurite)", on_azure),
    "mail": ("mail", "2 KB mails", measuring.speed),
    "othermail": ("mail", "Other mails", measuring.other_mails),
    "imports": ("mail", "Subscribers", measuring.subscribers),
    "host": ("host", "Hosted applications", hosting.figures),
    "web": ("web", "Sign-ups and pages", web.figures),
    "start": ("start", "The first minute", starting.figures),
}
FULL = {
    "growth": ("growth", "From 10,000 to 1,000,000 recipients", measuring.growth),
    "cost": ("cost", "Requests to Azure Storage", cost.figures),
}
REMARKS = {
    "store": STORE_REMARK,
    "mail": MAIL_REMARK,
    "growth": MAIL_REMARK,
    "start": START_REMARK,
    "cost": COST_REMARK,
    "host": HOST_REMARK,
    "web": WEB_REMARK,
}


def main(arguments: list[str]) -> int:
    chosen = arguments or list(PARTS)
    known = PARTS | FULL
    unknown = set(chosen) - set(known)
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)} (there are {', '.join(known)})")
        return 2
    reports: dict[str, dict[str, list[Figure]]] = {}
    for name in chosen:
        report, title, measure = known[name]
        found = measure()
        figures.show(title, found)
        reports.setdefault(report, {})[title] = found
    for report, sections in reports.items():
        whole = [title for kind, title, _ in known.values() if kind == report]
        if list(sections) == whole:
            figures.keep(report, sections, REMARKS[report])
            if report == "growth":
                plots.plot_growth(next(iter(sections.values())), figures.RESULTS)
    return _verdict(
        [f for sections in reports.values() for found in sections.values() for f in found]
    )


def _verdict(found: list[Figure]) -> int:
    missed = [figure for figure in found if figure.holds is False]
    for figure in missed:
        print(f"target missed: {figure.what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
