"""Requests to Azure Storage: the numbers that `postroom cost` uses, compared with counted ones."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from postroom.cli.operations.cost import PER_IDLE_MINUTE, PER_PAGE
from postroom.domain.messages.pages import PAGE_SIZE
from tests.services.stores.azurite import running_azurite
from tests.services.stores.counted_requests import count_idle_requests, count_requests

_SMALL, _LARGE = 1_000, 5_000
_IDLE_SECONDS = 60


def figures(effort: Effort) -> list[Figure]:
    with running_azurite() as azurite, tempfile.TemporaryDirectory() as folder:

        def fresh(name: str) -> tuple[str, Path]:
            path = Path(folder) / name
            path.mkdir()
            return azurite.connection_string(azurite.fresh_account()), path

        small = asyncio.run(count_requests(*fresh("small"), _SMALL))
        large = asyncio.run(count_requests(*fresh("large"), _LARGE))
        seconds = effort.size(_IDLE_SECONDS, 5)
        idle = asyncio.run(count_idle_requests(*fresh("idle"), seconds))
    pages = (_LARGE - _SMALL) / PAGE_SIZE
    found = []
    for service in ("table", "queue", "blob"):
        a_page = (large[service] - small[service]) / pages
        for what, counted, used in (
            ("a page of 100 emails", a_page, getattr(PER_PAGE, service)),
            ("an idle minute", idle[service] * 60 / seconds, getattr(PER_IDLE_MINUTE, service)),
        ):
            found.append(
                Figure(
                    f"{what}: {service} requests",
                    counted,
                    "",
                    baseline=used or None,
                    baseline_is="what `postroom cost` uses" if used else "",
                    target=1.25 if used else None,
                    target_is="at most",
                )
            )
    return found
