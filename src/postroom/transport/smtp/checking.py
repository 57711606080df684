"""Does a server take our mail? Tried as far as possible without sending any."""

from __future__ import annotations

import asyncio

import msgspec

from postroom.transport.contract import Result, TransportError
from postroom.transport.smtp.address import SmtpServer
from postroom.transport.smtp.connection import Connection
from postroom.transport.smtp.opening import OpeningFailed, open_connection
from postroom.transport.smtp.timeouts import Timeouts

LONGEST_WAIT = 30.0
"""Seconds for one reply: a person is waiting for this."""


class _Nobody:
    def resting(self, connection: Connection) -> None:
        """It never works, so it never rests."""

    def gone(self, connection: Connection) -> None:
        """Whoever asked sees it."""

    def fails(self, connection: Connection, result: Result) -> bool:
        """Return whether another server is tried: no mail is sent, so none fails."""
        return False


async def check_server(server: SmtpServer, timeouts: Timeouts) -> str:
    """One line of what was found. `TransportError` says what to change."""
    hasty = msgspec.structs.replace(
        timeouts,
        greeting=min(timeouts.greeting, LONGEST_WAIT),
        command=min(timeouts.command, LONGEST_WAIT),
    )
    try:
        connection = await open_connection(server, hasty, _Nobody())
    except OpeningFailed as exc:
        raise TransportError(str(exc)) from exc
    try:
        reply = await connection.ask(b"NOOP\r\n", hasty.command)
    except (OSError, TimeoutError) as exc:
        connection.hang_up()
        raise TransportError(f"{server} does not answer NOOP: {str(exc) or 'too slow'}") from exc
    connection.leave(hasty.quit)
    await asyncio.wait((connection.closed,), timeout=hasty.quit * 2)
    if not reply.is_positive:
        raise TransportError(f"{server} refuses NOOP: {reply.text}")
    return _describe(connection)


def _describe(connection: Connection) -> str:
    tls = connection.tls_version or "no TLS"
    if connection.tls_version and not connection.server.verify:
        tls += " (certificate not verified)"
    login = ", logged in" if connection.server.username else ""  # the name may be a token
    return f"{connection.server} ({connection.greeting}): {tls}{login}; {connection.offers}"
