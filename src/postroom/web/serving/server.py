"""The web server: uvicorn inside our own event loop, stopped like every other part."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from postroom.errors import PostroomError
from postroom.services.stored_secrets import SecretState
from postroom.settings import Settings, TrustedProxies
from postroom.web.app import make_app
from postroom.web.context import WebContext
from postroom.web.serving.connection_guard import ConnectionGuard, is_no_flood
from postroom.web.serving.connection_limits import ConnectionLimits, limits_from
from postroom.web.serving.proxy_watch import ProxyWatch

# How long requests that are under way may take once we are asked to stop.
_LAST_REQUESTS = 5
_BACKLOG = 2048  # connections that wait to be accepted; uvicorn's own number


class _Server(uvicorn.Server):
    """Signals are our caller's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound_socket(settings: Settings) -> socket.socket:
    """Where the pages will be; one clear line if somebody else is there already."""
    address, port = settings.web.bind, settings.web.port
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Named as TCP, so that asyncio sends small answers at once (TCP_NODELAY) and not 40 ms later.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(_BACKLOG)  # whoever comes before we are ready waits, and is not refused
    except OSError as exc:
        listener.close()
        raise PostroomError(
            f"the web server cannot listen on {address}:{port} ({exc.strerror}):"
            " stop what uses it, or take another port, as in --port 8421"
        ) from exc
    return listener


def _behind_proxies(context: WebContext, trusted: TrustedProxies) -> ASGIApp:
    """The application, which sees the visitor's address where a trusted proxy tells it."""
    app = make_app(context)
    if trusted.names:
        app = ProxyHeadersMiddleware(app, trusted_hosts=trusted.names)  # type: ignore[arg-type, assignment]
    sightings = context.services.proxy_sightings
    return ProxyWatch(app, trusted, sightings, context.background)


async def serve(
    context: WebContext,
    listener: socket.socket,
    stopping: asyncio.Event,
    limits: ConnectionLimits | None = None,
) -> None:
    """Answer requests until `stopping`; those under way are finished."""
    settings = context.settings
    proxies = settings.web.trusted_proxies
    guard = ConnectionGuard(limits or limits_from(settings), proxies)
    config = uvicorn.Config(
        _behind_proxies(context, proxies),
        http=guard.protocol_class(),
        ws="none",  # an upgraded connection would escape from the guard
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_LAST_REQUESTS,
        timeout_keep_alive=30,
        lifespan="off",
    )
    # Its lines have whole addresses, and some of those have a token.
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("uvicorn.error").addFilter(is_no_flood)
    server = _Server(config)
    context.background.start(context.services.growth.keep_counting(context.stopping), "growth")
    context.background.start(guard.watch(), "slow clients")
    # As earlier versions left them. What is under an old key is left to `postroom store rekey`:
    # servers that do not have the new key yet still have to read it.
    context.background.start(
        context.services.secrets.encrypt(SecretState.CLEAR), "encryption of secrets in the store"
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
    context.stopping.set()
    server.should_exit = True
    stop.cancel()
    await serving
    await context.background.stop()
    context.import_runs.close()
