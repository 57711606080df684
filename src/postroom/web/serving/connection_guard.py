"""Limits on connections: how many there are, and how long a client may take to send a request.

uvicorn itself closes a connection only between two requests. Without these limits, a few hundred
half-sent requests of one client could hold all connections of the server for as long as they like.

A client that opens too many connections loses its own: the one that has waited longest for the rest
of a request makes room for the new one. So nobody has to be locked out, other clients notice
nothing, and even for the same client `/healthz` still responds.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import defaultdict
from collections.abc import Collection
from enum import IntEnum
from time import monotonic
from typing import Any, ClassVar, Protocol, TypeVar

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from postroom.domain.rate_limits import client_network
from postroom.settings import Settings, TrustedProxies

# Connections may use half of the files that the process may open: store and uploads need some, too.
_SHARE_OF_FILES = 2


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Numbers of connections; times in seconds, rates in bytes per second.

    A request head fits into one packet, so ten seconds are generous even for a slow line. A body
    may take `body_seconds`, and longer if it arrives at `body_rate` on average, which the slowest
    modem exceeds. A client that reads nothing of the response for `stalled_seconds` is gone.
    """

    overall: int = 1000
    per_client: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    body_rate: float = 500.0
    stalled_seconds: float = 60.0
    check_seconds: float = 1.0


class Waiting(IntEnum):
    """What a connection waits for; those with a smaller number are closed first."""

    REQUEST = 0
    """A request, or the rest of its head."""

    BODY = 1
    RESPONSE = 2
    """The client has sent everything."""


class WaitingConnection(Protocol):
    """A connection as the rules see it. `since` is when it began to wait."""

    waiting: Waiting
    since: float


AnyConnection = TypeVar("AnyConnection", bound=WaitingConnection)


def limits_from(settings: Settings) -> ConnectionLimits:
    """Return the configured limits, at most what the process's file limit allows."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    overall: int = settings.web.connections
    if allowed != resource.RLIM_INFINITY:
        overall = min(overall, max(allowed // _SHARE_OF_FILES, 1))
    return ConnectionLimits(overall=overall, per_client=settings.web.connections_per_client)


def is_too_slow(limits: ConnectionLimits, waiting: Waiting, waited: float, received: int) -> bool:
    """Return whether a client has taken too long. `received` is the number of body bytes."""
    if waiting is Waiting.REQUEST:
        return waited > limits.head_seconds
    if waiting is Waiting.BODY:
        return waited > limits.body_seconds + received / limits.body_rate
    return False


def connection_to_close(
    connections: Collection[AnyConnection], new: AnyConnection
) -> AnyConnection | None:
    """Return the connection that makes room for a new one; None if all are being answered."""
    idle = [each for each in connections if each is not new and each.waiting < Waiting.RESPONSE]
    return min(idle, key=lambda each: (each.waiting, each.since), default=None)


log = logging.getLogger(__name__)

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_LOGGED_EVERY = 60.0  # seconds, so that an attack does not fill the log
# Lines that uvicorn logs once per request, so that anyone could fill the log with them.
_FLOODS = ("Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket library")


def is_not_flood(record: logging.LogRecord) -> bool:
    """Filter uvicorn's log: drop lines that anyone could repeat without end."""
    return not record.getMessage().startswith(_FLOODS)


class ConnectionGuard:
    """Keeps track of all connections of a server, and closes those that are too slow or too many.

    The limit per client does not apply to trusted proxies: they carry different visitors.
    """

    def __init__(self, limits: ConnectionLimits, proxies: TrustedProxies) -> None:
        self._limits = limits
        self._proxies = proxies
        self._by_client: defaultdict[str, dict[GuardedProtocol, None]] = defaultdict(dict)
        self._count = 0
        self._closed = 0
        self._logged_at = -_LOGGED_EVERY

    def protocol_class(self) -> type[H11Protocol]:
        """Return the class that uvicorn instantiates for each connection."""

        class Guarded(GuardedProtocol):
            guard = self

        return Guarded

    async def watch(self) -> None:
        """Close slow connections, until cancelled."""
        while True:
            await asyncio.sleep(self._limits.check_seconds)
            now = monotonic()
            for connections in list(self._by_client.values()):
                for connection in list(connections):
                    connection.check(self._limits, now)
            self._log(now)

    def enter(self, connection: GuardedProtocol, address: str) -> None:
        """Register a new connection; another one may have to make room for it."""
        key = client_network(address)
        connection.key = key
        same_client = self._by_client[key]
        same_client[connection] = None
        self._count += 1
        limits = self._limits
        if len(same_client) > limits.per_client and address not in self._proxies:
            self._make_room(same_client, connection)
        elif self._count > limits.overall:
            self._make_room(max(self._by_client.values(), key=len), connection)

    def leave(self, connection: GuardedProtocol) -> None:
        same_client = self._by_client.get(connection.key)
        if same_client is None or connection not in same_client:
            return  # it has already made room
        del same_client[connection]
        self._count -= 1
        if not same_client:
            del self._by_client[connection.key]

    def note_closed(self) -> None:
        """Count a connection that was closed because of a limit, for the log."""
        self._closed += 1

    def _make_room(self, among: dict[GuardedProtocol, None], connection: GuardedProtocol) -> None:
        closing = connection_to_close(among, connection)
        if closing is None:
            connection.transport.write(_TOO_MANY)  # all others are being answered
            closing = connection
        self.leave(closing)
        closing.give_up(_TOO_SLOW)

    def _log(self, now: float) -> None:
        if self._closed and now - self._logged_at >= _LOGGED_EVERY:
            log.warning("closed %d connections: too slow, too many or not HTTP", self._closed)
            self._closed, self._logged_at = 0, now


class GuardedProtocol(H11Protocol):
    """One connection, and what it waits for."""

    guard: ClassVar[ConnectionGuard]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.key = ""
        self.waiting = Waiting.REQUEST
        self.since = monotonic()
        self._received = 0  # bytes of the request head or body so far
        self._unread = 0  # bytes of responses that the client has not read
        self._unread_since = self.since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.guard.enter(self, self.client[0] if self.client else "")

    def connection_lost(self, exc: Exception | None) -> None:
        self.guard.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_idle():
            self.since = monotonic()  # start of a new request
        super().data_received(data)
        self._update(len(data))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update(0)

    def send_400_response(self, msg: str) -> None:
        self.guard.note_closed()
        super().send_400_response(msg)

    def _update(self, size: int) -> None:
        """Update what the connection waits for, after an event."""
        theirs = self.conn.their_state
        if theirs is h11.IDLE:
            waiting = Waiting.REQUEST
        elif theirs is h11.SEND_BODY:
            waiting = Waiting.BODY
        else:
            waiting = Waiting.RESPONSE
        if waiting is not self.waiting:
            self.waiting, self.since, self._received = waiting, monotonic(), 0
        self._received += size

    def check(self, limits: ConnectionLimits, now: float) -> None:
        """Close the connection if its client is too slow."""
        if self._is_stalled(limits, now):
            self.guard.note_closed()
            self.transport.abort()
            return
        if self.flow.read_paused:
            self.since += limits.check_seconds  # we do not read at the moment
        elif not self._is_idle() and is_too_slow(
            limits, self.waiting, now - self.since, self._received
        ):
            self.give_up(_TOO_SLOW)

    def _is_idle(self) -> bool:
        """Return whether it is between two requests; uvicorn closes it if that takes too long."""
        return self.waiting is Waiting.REQUEST and self.timeout_keep_alive_task is not None

    def _is_stalled(self, limits: ConnectionLimits, now: float) -> bool:
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unread:
            self._unread, self._unread_since = unread, now
        return now - self._unread_since > limits.stalled_seconds

    def give_up(self, response: bytes) -> None:
        """Close the connection, with a response if a request has begun and has none yet.

        On an idle connection, a browser would take the response for that to its next request.
        """
        self.guard.note_closed()
        has_begun = self._received > 0 or self.waiting is not Waiting.REQUEST
        is_answered = self.waiting is not Waiting.REQUEST and self.cycle.response_started
        if has_begun and not is_answered:
            self.transport.write(response)
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # the client has not read earlier data either
        else:
            self.transport.close()
