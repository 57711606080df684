"""The figures of the web."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from bench.web import hits, pages, sign_ups


def sign_up_figures(effort: Effort) -> list[Figure]:
    return _in_folder(lambda folder: sign_ups.figures(folder, effort))


def hit_figures(effort: Effort) -> list[Figure]:
    return _in_folder(lambda folder: hits.figures(folder, effort))


def page_figures(effort: Effort) -> list[Figure]:
    return _in_folder(lambda folder: asyncio.run(pages.figures(folder, effort)))


def _in_folder(measure: Callable[[Path], list[Figure]]) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        return measure(Path(name))
