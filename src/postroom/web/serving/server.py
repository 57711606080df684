"""The web server: uvicorn in our own event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from postroom.errors import PostroomError
from postroom.observability.logs import JSON
from postroom.services.stored_secrets import SecretState
from postroom.settings import Settings, TrustedProxies
from postroom.web.admin.accounts.login import setup_link
from postroom.web.app import make_app
from postroom.web.context import WebContext
from postroom.web.serving.connection_guard import (
    ConnectionGuard,
    ConnectionLimits,
    is_not_flood,
    limits_from,
)
from postroom.web.serving.middleware import ProxyWatch

# Seconds that running requests may take during a shutdown.
_SHUTDOWN_SECONDS = 5
_BACKLOG = 2048  # connections waiting to be accepted; uvicorn's default


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the caller handles signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound_socket(settings: Settings) -> socket.socket:
    """Return the listening socket; raise `PostroomError` if the port is in use."""
    address, port = settings.web.bind, settings.web.port
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Declared as TCP, so that asyncio sets TCP_NODELAY: small responses are not delayed by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(_BACKLOG)  # early clients wait and are not refused
    except OSError as exc:
        listener.close()
        raise PostroomError(
            f"the web server cannot listen on {address}:{port} ({exc.strerror}):"
            " stop the program that uses it, or choose another port, for example --port 8421"
        ) from exc
    return listener


def _behind_proxies(context: WebContext, trusted: TrustedProxies) -> ASGIApp:
    """Return the application, with the visitor's address as reported by a trusted proxy."""
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
    """Serve requests until `stopping`; running ones are finished."""
    settings = context.settings
    proxies = settings.web.trusted_proxies
    guard = ConnectionGuard(limits or limits_from(settings), proxies)
    config = uvicorn.Config(
        _behind_proxies(context, proxies),
        http=guard.protocol_class(),
        ws="none",  # an upgraded connection would escape the guard
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_keep_alive=30,
        lifespan="off",
    )
    # Its lines contain whole URLs, some of them with a token.
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("uvicorn.error").addFilter(is_not_flood)
    server = _Server(config)
    context.background.start(context.services.growth.keep_counting(context.stopping), "growth")
    context.background.start(context.import_runs.keep_resuming(context.stopping), "imports")
    context.background.start(guard.watch(), "slow clients")
    context.hits.recover()
    # Secrets that earlier versions stored in clear text. Those under an old key are left to
    # `postroom store rekey`: servers that do not have the new key yet must still read them.
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
    await context.hits.close()
    await context.preflight.close()


ADD_FIRST_USER = "postroom user add you@example.com --role administrator"


class FirstStep(msgspec.Struct, frozen=True):
    """What to do while there are no accounts: open the link, or run `ADD_FIRST_USER`."""

    is_needed: bool
    link: str = ""


async def first_step(context: WebContext) -> FirstStep:
    """Return what has to be done before anyone can log in.

    Anyone who sees the link can use it, so it is for the terminal only. If standard error is a log
    that is collected (`log_format = json`), it is left out.
    """
    if not await context.services.users.is_first_start():
        return FirstStep(False)
    is_log = context.settings.observability.log_format == JSON
    return FirstStep(True, "" if is_log else setup_link(context))


async def print_url(context: WebContext, listener: socket.socket) -> None:
    address, port = listener.getsockname()[:2]
    click.secho(f"Pages and API: http://{address}:{port}", bold=True, err=True)
    first = await first_step(context)
    if first.is_needed:
        todo = first.link or ADD_FIRST_USER
        click.echo(f"Create your administrator account: {todo}", err=True)
