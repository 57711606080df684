"""Whether this server is alive, and whether it can work: for whoever watches over it."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from postroom.storage import StoreError
from postroom.web.context import WebContext

_PATIENCE = 5.0  # seconds: a balancer has given up by then


def health_routes(context: WebContext) -> list[Route]:
    """`/healthz`: this process answers. `/readyz`: and the store answers it."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        try:
            async with asyncio.timeout(_PATIENCE):
                await context.services.store.info()
        except (StoreError, TimeoutError):
            # Why is in the log and in `postroom check`; anybody may ask here.
            return JSONResponse({"status": "the store cannot be reached"}, 503)
        return JSONResponse({"status": "ok"})

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
