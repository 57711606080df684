"""uvicorn's HTTP protocol with limits on connections and on slow clients.

uvicorn itself closes a connection only between two requests. `connection_limits` has the rules;
here they are applied to sockets.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from time import monotonic
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from postroom.domain.networks import client_network
from postroom.settings import TrustedProxies
from postroom.web.serving.connection_limits import ConnectionLimits, Waits, is_too_slow, to_give_up

log = logging.getLogger(__name__)

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_LOGGED_EVERY = 60.0  # seconds: an attack does not fill the log
# What uvicorn logs once per request, so that anybody could fill the log with it.
_FLOODS = ("Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket library")


def is_no_flood(record: logging.LogRecord) -> bool:
    """Filter the log of uvicorn: leave out the lines that a stranger could repeat without end."""
    return not record.getMessage().startswith(_FLOODS)


class ConnectionGuard:
    """All connections of a server; closes those of clients that are too slow or too many.

    Connections of a trusted proxy count together only: they carry different visitors.
    """

    def __init__(self, limits: ConnectionLimits, proxies: TrustedProxies) -> None:
        self._limits = limits
        self._proxies = proxies
        self._by_client: defaultdict[str, dict[GuardedProtocol, None]] = defaultdict(dict)
        self._count = 0
        self._closed = 0
        self._logged_at = -_LOGGED_EVERY

    def protocol_class(self) -> type[H11Protocol]:
        """Return what uvicorn makes for each connection."""

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
        """Take a new connection in; another one may have to make room for it."""
        key = client_network(address)
        connection.key = key
        mine = self._by_client[key]
        mine[connection] = None
        self._count += 1
        limits = self._limits
        if len(mine) > limits.per_client and address not in self._proxies:
            self._make_room(mine, connection)
        elif self._count > limits.overall:
            self._make_room(max(self._by_client.values(), key=len), connection)

    def leave(self, connection: GuardedProtocol) -> None:
        mine = self._by_client.get(connection.key)
        if mine is None or connection not in mine:
            return  # it had to make room
        del mine[connection]
        self._count -= 1
        if not mine:
            del self._by_client[connection.key]

    def note_closed(self) -> None:
        """Count a connection that was closed for a limit, for the log."""
        self._closed += 1

    def _make_room(self, among: dict[GuardedProtocol, None], connection: GuardedProtocol) -> None:
        given_up = to_give_up(among, connection)
        if given_up is None:
            connection.transport.write(_TOO_MANY)  # all others are being answered
            given_up = connection
        self.leave(given_up)
        given_up.give_up(_TOO_SLOW)

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
        self.waits = Waits.NOTHING_YET
        self.since = monotonic()
        self._received = 0  # bytes of what it waits for the rest of
        self._unread = 0  # bytes of answers that the client has not taken off us
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
            self.since = monotonic()  # a new request begins
        super().data_received(data)
        self._look(len(data))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look(0)

    def send_400_response(self, msg: str) -> None:
        self.guard.note_closed()
        super().send_400_response(msg)

    def _look(self, size: int) -> None:
        """See what the connection waits for, after something has happened."""
        theirs = self.conn.their_state
        if theirs is h11.IDLE:
            waits = Waits.NOTHING_YET
        elif theirs is h11.SEND_BODY:
            waits = Waits.BODY
        else:
            waits = Waits.ANSWER
        if waits is not self.waits:
            self.waits, self.since, self._received = waits, monotonic(), 0
        self._received += size

    def check(self, limits: ConnectionLimits, now: float) -> None:
        """Close the connection if its client is too slow."""
        if self._is_stalled(limits, now):
            self.guard.note_closed()
            self.transport.abort()
            return
        if self.flow.read_paused:
            self.since += limits.check_seconds  # it is us who do not read
        elif not self._is_idle() and is_too_slow(
            limits, self.waits, now - self.since, self._received
        ):
            self.give_up(_TOO_SLOW)

    def _is_idle(self) -> bool:
        """Whether it is between two requests: uvicorn closes it when that lasts too long."""
        return self.waits is Waits.NOTHING_YET and self.timeout_keep_alive_task is not None

    def _is_stalled(self, limits: ConnectionLimits, now: float) -> bool:
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unread:
            self._unread, self._unread_since = unread, now
        return now - self._unread_since > limits.stalled_seconds

    def give_up(self, answer: bytes) -> None:
        """Close the connection, with an answer to a request that has begun and has none yet.

        A browser that only keeps a connection ready would take an answer for that to its next
        request.
        """
        self.guard.note_closed()
        has_begun = self._received > 0 or self.waits is not Waits.NOTHING_YET
        is_answered = self.waits is not Waits.NOTHING_YET and self.cycle.response_started
        if has_begun and not is_answered:
            self.transport.write(answer)
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # the client has not even read what was sent before
        else:
            self.transport.close()
