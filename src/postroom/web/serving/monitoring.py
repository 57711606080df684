"""`/metrics`, `/healthz` and `/readyz`, and the measuring of requests."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.observability import metrics
from postroom.observability.logs import about
from postroom.observability.spans import note, span
from postroom.services.accounts.api_keys import Scope as ApiScope
from postroom.services.accounts.users import Role
from postroom.web.context import WebContext
from postroom.wiring import Services, stalls_in

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_OPEN_MESSAGES = 1000
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def metrics_route(context: WebContext) -> Route:
    """Return `/metrics`, for API keys that may read and for administrators in a browser."""

    async def respond(request: Request) -> Response:
        if not await _may_read(request, context):
            return PlainTextResponse(
                "Send an API key with the scope `read`: Authorization: Bearer KEY\n",
                401,
                {"WWW-Authenticate": "Bearer"},
            )
        content = metrics.collect(await _levels(context.services))
        return Response(content, headers={"Content-Type": _TEXT})

    return Route("/metrics", respond)


class Measured:
    """Measures every request, and gives it an id for logs and traces."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = "500"  # unless a response is started

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                # For problem reports; the id is in the log and in the trace.
                message["headers"] = [*message["headers"], (b"x-request-id", request.encode())]
            await send(message)

        request = (
            f"{random.getrandbits(48):012x}"  # not a secret, so no system call for random bytes
        )
        start = time.perf_counter()
        try:
            # Without the URL, which may contain personal data or a secret.
            with (
                about(request=request),
                span(f"{scope['method']} request", parent=_parent_of(scope), request=request),
            ):
                await self._app(scope, receive, send_with_id)
                note(status=status)
        finally:
            # A client must not be able to create labels by inventing methods.
            method = scope["method"] if scope["method"] in _METHODS else "other"
            metrics.WEB_SECONDS.observe(time.perf_counter() - start, method, status)


def _parent_of(scope: Scope) -> str:
    """Return the caller's trace, if it sent one."""
    for name, value in scope["headers"]:
        if name == b"traceparent":
            return str(value, "latin-1")
    return ""


async def _may_read(request: Request, context: WebContext) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        key = await context.services.keys.find(given.strip())
        return key is not None and not key.only_lists and key.may(ApiScope.READ)
    token = request.cookies.get(context.cookies.session)
    found = await context.services.sessions.find(token) if token else None
    return found is not None and found[0].role.includes(Role.ADMINISTRATOR)


async def _levels(
    services: Services,
) -> dict[metrics.Gauge, dict[tuple[str, ...], float]]:
    """Return current levels from the store."""
    queues, hosts, messages = await asyncio.gather(
        services.store.queues(),
        services.hosts.current(),
        services.messages.slice(limit=_OPEN_MESSAGES),
    )
    now = datetime.now(UTC)
    processes = Counter(
        (app.path, process.state)
        for host in hosts
        for app in host.apps
        for process in app.processes
    )
    statuses = Counter((each.status.value,) for each in messages.messages)
    return {
        metrics.QUEUE_LENGTH: {(each.name,): float(each.length) for each in queues},
        metrics.QUEUE_AGE: {
            (each.name,): max(0.0, (now - each.oldest).total_seconds()) if each.oldest else 0.0
            for each in queues
        },
        metrics.PROCESSES: {labels: float(count) for labels, count in processes.items()},
        metrics.MESSAGES: {labels: float(count) for labels, count in statuses.items()},
    }


def health_routes(context: WebContext) -> list[Route]:
    """Return `/healthz` (this process responds) and `/readyz` (the store can be written, and no
    part on this machine has stalled)."""
    stalls = stalls_in(context.settings)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        # Anyone may ask, so details are only in the log and in `postroom check`.
        problems = [
            f"the {each.part} made no progress" for each in await asyncio.to_thread(stalls.find)
        ]
        if problem := await context.services.store_health.problem():
            problems.insert(0, problem)
        if problems:
            return JSONResponse({"status": "; ".join(problems)}, 503)
        return JSONResponse({"status": "ok"})

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
