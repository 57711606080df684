"""`make bench`: everything, or `make bench ARGS=sqlite` for one engine.

Each figure stands beside a baseline that was measured in the same run: ratios travel to other
machines, absolute figures do not.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from bench import figures
from bench.store import azure, postgres, sqlite
from tests.services.azurite import running_azurite
from tests.services.postgres import running_postgres

ENGINES = ("sqlite", "postgres", "azure")
REMARK = (
    "The store beside the raw driver doing the same work in the same run (`make bench`)."
    " PostgreSQL runs with `fsync=off`, as in the tests; SQLite with `synchronous=FULL`."
)


def main(arguments: list[str]) -> int:
    chosen = arguments or list(ENGINES)
    unknown = set(chosen) - set(ENGINES)
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)} (there are {', '.join(ENGINES)})")
        return 2
    sections: dict[str, list[figures.Figure]] = {}
    if "sqlite" in chosen:
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
            sections["SQLite"] = asyncio.run(sqlite.figures(Path(folder)))
        figures.show("SQLite", sections["SQLite"])
    if "postgres" in chosen:
        with running_postgres() as server:
            sections["PostgreSQL"] = asyncio.run(postgres.figures(server))
        figures.show("PostgreSQL", sections["PostgreSQL"])
    if "azure" in chosen:
        with running_azurite() as azurite:
            os.environ["POSTROOM_AZURE_CONNECTION_STRING"] = azurite.connection_string()
            sections["Azure"] = asyncio.run(azure.figures())
        figures.show("Azure Storage (Azurite)", sections["Azure"])
    if set(chosen) == set(ENGINES):
        figures.keep("store", sections, REMARK)
    missed = [f.what for found in sections.values() for f in found if f.holds is False]
    for what in missed:
        print(f"target missed: {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
