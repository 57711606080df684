"""Waiting for company, so that several can go together."""

from __future__ import annotations

import asyncio


class Company:
    """Whoever comes within `seconds` of the first one goes on at the same moment."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._leaving: asyncio.Event | None = None

    async def wait(self) -> None:
        if not self._seconds:
            return
        if self._leaving is None:
            self._leaving = asyncio.Event()
            asyncio.get_running_loop().call_later(self._seconds, self._leave, self._leaving)
        await self._leaving.wait()

    def _leave(self, together: asyncio.Event) -> None:
        self._leaving = None
        together.set()
