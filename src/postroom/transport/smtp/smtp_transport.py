"""SMTP as a transport."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from postroom.domain.errors import Invalid
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.batch import settle_alike
from postroom.transport.contract import (
    ConnectionQuota,
    FaultScope,
    Result,
    ResultKind,
    Transport,
    TransportError,
    Watcher,
)
from postroom.transport.smtp.backlog import SmtpBatch
from postroom.transport.smtp.connection_pool import ConnectionPool
from postroom.transport.smtp.handshake import HandshakeFailed, open_connection
from postroom.transport.smtp.servers import SmtpServer, Timeouts
from postroom.transport.smtp.smtp_connection import SmtpConnection

_LONGEST_CHECK = 30.0
"""Seconds for one reply during `check`: a person is waiting."""


class SmtpTransport(Transport):
    """Servers in order of preference, with up to `connections` to the one in use."""

    def __init__(
        self,
        servers: Sequence[SmtpServer],
        *,
        connections: int = 8,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._servers = tuple(servers)
        self._timeouts = timeouts or Timeouts()
        self._connections = connections
        self._pool = ConnectionPool(self._servers, connections, self._timeouts)

    def __repr__(self) -> str:
        return f"SmtpTransport({', '.join(map(str, self._servers))})"

    @property
    def concurrency(self) -> int:
        return self._connections

    @property
    def open_connections(self) -> int:
        return self._pool.size

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        if not recipients:
            return []
        now = asyncio.get_running_loop().time()
        try:
            batch = SmtpBatch(mailing, recipients, watcher, now, quota)
        except Invalid as exc:
            problem = f"the From address: {exc}"
            reason = "The From address is not valid"
            held = Result(ResultKind.HELD, problem, FaultScope.MESSAGE, reason)
            return settle_alike(held, len(recipients), watcher)
        self._pool.add(batch)
        return await batch.wait(self._timeouts.cancelled, lambda: self._pool.give_up(batch))

    def limit_connections(self, most: int) -> None:
        self._pool.limit(min(most, self._connections))

    async def check(self) -> str:
        """Try each server and report on all; one that works is enough."""
        lines, works = [], False
        for server in self._servers:
            try:
                lines.append(await _check_server(server, self._timeouts))
                works = True
            except TransportError as exc:
                lines.append(str(exc))
        if not works:
            raise TransportError("; ".join(lines))
        return "; ".join(lines)

    async def close(self) -> None:
        await self._pool.close()


class NoPool:
    """The owner of a connection that is opened only for a check."""

    def resting(self, connection: SmtpConnection) -> None:
        return

    def gone(self, connection: SmtpConnection) -> None:
        return

    def fails(self, connection: SmtpConnection, result: Result) -> bool:
        return False


async def _check_server(server: SmtpServer, timeouts: Timeouts) -> str:
    """Return one line about the server; raise `TransportError`."""
    hasty = msgspec.structs.replace(
        timeouts,
        greeting=min(timeouts.greeting, _LONGEST_CHECK),
        command=min(timeouts.command, _LONGEST_CHECK),
    )
    try:
        connection = await open_connection(server, hasty, NoPool())
    except HandshakeFailed as exc:
        raise TransportError(str(exc)) from exc
    try:
        reply = await connection.ask(b"NOOP\r\n", hasty.command)
    except (OSError, TimeoutError) as exc:
        connection.disconnect()
        raise TransportError(
            f"{server} does not respond to NOOP: {str(exc) or 'too slow'}"
        ) from exc
    connection.leave(hasty.quit)
    await asyncio.wait((connection.closed,), timeout=hasty.quit * 2)
    if not reply.is_positive:
        raise TransportError(f"{server} refuses NOOP: {reply.text}")
    return _describe(connection)


def _describe(connection: SmtpConnection) -> str:
    tls = connection.tls_version or "no TLS"
    if connection.tls_version and not connection.server.verify:
        tls += " (certificate not verified)"
    login = ", logged in" if connection.server.username else ""  # the name may be a token
    return f"{connection.server} ({connection.greeting}): {tls}{login}; {connection.extensions}"
