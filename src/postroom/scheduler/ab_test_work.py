"""Advances A/B tests, next to the scheduler: schedules their variants, decides when the waiting
time is over, and sends the rest.

One process does this at a time. Each step can be repeated, so one that was interrupted is finished
by the next process.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from postroom.domain.errors import DomainError
from postroom.services.audience.results.ab_testing import AbTestService
from postroom.services.concurrency import run_periodically
from postroom.storage import Store

log = logging.getLogger(__name__)

_EVERY: Final = 5.0  # seconds; on Azure, each round costs a few transactions
_LEASE: Final = 15.0  # after a kill, another process continues that much later


class AbTestWork:
    def __init__(self, store: Store, tests: AbTestService, every: float = _EVERY) -> None:
        self._store = store
        self._tests = tests
        self._every = every

    async def run(self, stopping: asyncio.Event) -> None:
        await run_periodically(
            self._store,
            "ab-tests",
            lambda _: self.advance_all(),
            every=self._every,
            stopping=stopping,
            lease=_LEASE,
        )

    async def advance_all(self) -> None:
        for key in await self._tests.rows.open_ones():
            try:
                await self._tests.advance(key)
            except DomainError as exc:  # a person has changed it: the next round continues
                log.info("A/B test %s: %s", key, exc)
