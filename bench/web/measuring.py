"""The figures of the web."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.web import pages, sign_ups


def figures(effort: Effort) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        folder = Path(name)
        return [
            *sign_ups.figures(folder, effort),
            *asyncio.run(pages.figures(folder / "pages", effort)),
        ]
