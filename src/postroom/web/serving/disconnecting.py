"""Work that ends when the client that asked for it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the client disconnects before, cancel it and raise
    `ClientDisconnect`. The request's body must have been read."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        watching.cancel()
        working.cancel()
        await asyncio.wait([working, watching])


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
