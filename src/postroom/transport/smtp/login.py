"""AUTH (RFC 4954) with PLAIN (RFC 4616) or LOGIN, the two that every server has."""

from __future__ import annotations

from base64 import b64encode

from postroom.transport.reply_parsing import Reply
from postroom.transport.smtp.connection import Connection


async def log_in(connection: Connection, seconds: float) -> Reply | None:
    """The server's last word, or `None` when it offers no way that we know."""
    user, password = connection.server.username.encode(), connection.server.password.encode()
    if "PLAIN" in connection.offers.auth:
        secret = b64encode(b"\0".join((b"", user, password)))
        return await connection.ask(b"AUTH PLAIN " + secret + b"\r\n", seconds)
    if "LOGIN" in connection.offers.auth:
        reply = await connection.ask(b"AUTH LOGIN\r\n", seconds)
        for answer in (user, password):
            if reply.code != 334:
                return reply
            reply = await connection.ask(b64encode(answer) + b"\r\n", seconds)
        return reply
    return None
