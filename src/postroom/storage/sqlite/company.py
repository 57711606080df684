"""Waiting for company, so that several share one transaction (see `writer.py`)."""

from __future__ import annotations

import asyncio


class Company:
    """Callers that come while the first one waits continue at the same moment."""

    def __init__(self) -> None:
        self._leaving: asyncio.Event | None = None

    async def wait(self, seconds: float) -> None:
        """So long, or as long as the one that is waiting already."""
        if self._leaving is None:
            self._leaving = asyncio.Event()
            asyncio.get_running_loop().call_later(seconds, self._leave, self._leaving)
        await self._leaving.wait()

    def _leave(self, together: asyncio.Event) -> None:
        self._leaving = None
        together.set()
