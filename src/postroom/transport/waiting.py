"""Waiting for what was handed over, although the caller was cancelled."""

from __future__ import annotations

import asyncio


async def wait_although_cancelled(future: asyncio.Future[None], seconds: float) -> None:
    """Wait for the future, at most so long, however often cancelled: whoever is in a hurry makes
    doubts."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not future.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait((future,), timeout=left)
        except asyncio.CancelledError:
            continue
