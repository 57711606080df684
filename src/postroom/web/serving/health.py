"""Whether this server is alive, and whether it can work: for whoever watches over it."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from postroom.web.context import WebContext
from postroom.wiring import stalls_in


def health_routes(context: WebContext) -> list[Route]:
    """`/healthz`: this process answers. `/readyz`: the store can be written, and no part of this
    machine stands still."""
    stalls = stalls_in(context.settings)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        # Details are in the log and in `postroom check`; anybody may ask here.
        problems = [
            f"the {each.part} made no progress" for each in await asyncio.to_thread(stalls.find)
        ]
        if problem := await context.services.store_health.problem():
            problems.insert(0, problem)
        if problems:
            return JSONResponse({"status": "; ".join(problems)}, 503)
        return JSONResponse({"status": "ok"})

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
