"""Opens a connection that is ready to send mail: connect, EHLO, TLS, AUTH."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable

from postroom.errors import PostroomError
from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.replies import Extensions, Reply, SmtpStage, parse_extensions
from postroom.transport.smtp.reply_meaning import judge
from postroom.transport.smtp.servers import SmtpServer, Timeouts, Tls
from postroom.transport.smtp.smtp_connection import ConnectionLost, ConnectionOwner, SmtpConnection


class HandshakeFailed(PostroomError):
    """No connection could be opened. `result` is for the emails that wait for it. If it
    `is_temporary`, it may end within seconds, so they wait a little before they are held."""

    def __init__(self, problem: str, reason: str, *, is_temporary: bool = True) -> None:
        super().__init__(problem)
        self.result = Result(ResultKind.HELD, problem, FaultScope.ACCOUNT, reason)
        self.is_temporary = is_temporary


async def open_connection(
    server: SmtpServer,
    timeouts: Timeouts,
    owner: ConnectionOwner,
    make: Callable[[SmtpServer, ConnectionOwner], SmtpConnection] = SmtpConnection,
) -> SmtpConnection:
    """Return a connection that is ready for MAIL; raise `HandshakeFailed`."""
    try:
        connection = await _connect(server, timeouts, lambda: make(server, owner))
    except TimeoutError:
        raise _unreachable(server, f"no answer within {timeouts.connect:g} s") from None
    except ssl.SSLError as exc:
        raise _tls_failed(server, exc) from exc
    except OSError as exc:
        raise _unreachable(server, _reason(exc)) from exc
    except UnicodeError as exc:  # from the codec for host names
        raise _unreachable(server, "its name is not a valid host name") from exc
    try:
        await _introduce(connection, timeouts)
    except TimeoutError:
        connection.disconnect()
        problem = f"{server} accepts connections, but does not respond"
        raise HandshakeFailed(problem, "The mail server is not responding") from None
    except ssl.SSLError as exc:
        connection.disconnect()
        raise _tls_failed(server, exc) from exc
    except OSError as exc:
        connection.disconnect()
        raise _unreachable(server, _reason(exc)) from exc
    except BaseException:
        connection.disconnect()
        raise
    return connection


async def _connect(
    server: SmtpServer, timeouts: Timeouts, make: Callable[[], SmtpConnection]
) -> SmtpConnection:
    loop = asyncio.get_running_loop()
    implicit = server.tls is Tls.IMPLICIT
    async with asyncio.timeout(timeouts.connect):
        _, connection = await loop.create_connection(
            make,
            server.host,
            server.port,
            ssl=_context(server) if implicit else None,
            server_hostname=server.host if implicit else None,
        )
    return connection


async def _introduce(connection: SmtpConnection, timeouts: Timeouts) -> None:
    server = connection.server
    greeting = await _greeting(connection, timeouts)
    _expect(server, SmtpStage.CONNECT, greeting, 220)
    connection.greeting = greeting.text[4:]
    name = server.ehlo or await _own_name(connection)
    connection.extensions = await _ehlo(connection, name, timeouts)
    if await _start_tls(connection, timeouts):
        # Extensions offered before TLS no longer count (RFC 3207 4.2).
        connection.extensions = await _ehlo(connection, name, timeouts)
    if server.username:
        reply = await _log_in(connection, timeouts)
        _expect(server, SmtpStage.AUTH, reply, 235)


async def _greeting(connection: SmtpConnection, timeouts: Timeouts) -> Reply:
    """Return the greeting. A silent server may be waiting for a TLS handshake."""
    server = connection.server
    # Port 25 never expects TLS first, and servers there may greet slowly to catch spammers.
    if server.tls is Tls.IMPLICIT or server.port == 25 or timeouts.silence >= timeouts.greeting:
        return await connection.reply(timeouts.greeting)
    try:
        return await connection.reply(timeouts.silence)
    except TimeoutError:
        if connection.is_silent and await _expects_tls(server, timeouts.silence):
            raise _refused(
                server,
                "it expects TLS from the first byte: use smtps:// here",
                "The mail server expects TLS from the first byte (smtps://)",
            ) from None
    return await connection.reply(timeouts.greeting - timeouts.silence)


async def _expects_tls(server: SmtpServer, seconds: float) -> bool:
    """Return whether the server accepts a TLS handshake on another connection."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(server.host, server.port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


async def _ehlo(connection: SmtpConnection, name: str, timeouts: Timeouts) -> Extensions:
    reply = await connection.ask(f"EHLO {name}\r\n".encode(), timeouts.command)
    if reply.code in (500, 501, 502, 504):  # RFC 5321 3.2: it supports only HELO
        reply = await connection.ask(f"HELO {name}\r\n".encode(), timeouts.command)
    _expect(connection.server, SmtpStage.EHLO, reply, 250)
    return parse_extensions(list(reply.lines))


async def _start_tls(connection: SmtpConnection, timeouts: Timeouts) -> bool:
    server = connection.server
    if server.tls in (Tls.IMPLICIT, Tls.OFF):
        return False
    if not connection.extensions.starttls:
        if server.tls is Tls.REQUIRED:
            raise _refused(
                server,
                "it does not offer STARTTLS, which tls=required asks for",
                "The mail server does not offer encryption (STARTTLS)",
            )
        return False
    reply = await connection.ask(b"STARTTLS\r\n", timeouts.command)
    _expect(server, SmtpStage.STARTTLS, reply, 220)
    await connection.start_tls(_context(server), timeouts.connect)
    return True


async def _log_in(connection: SmtpConnection, timeouts: Timeouts) -> Reply:
    server = connection.server
    if connection.tls_version is None and not _is_loopback(connection.address("peername")):
        raise _refused(
            server,
            "passwords are never sent without TLS: use smtps://, or a server that offers STARTTLS",
            "The mail server does not offer encryption, which a password needs",
        )
    reply = await _authenticate(connection, timeouts.command)
    if reply is None:
        offered = " ".join(sorted(connection.extensions.auth)) or "none"
        raise _refused(
            server,
            f"it does not offer AUTH PLAIN or LOGIN (offered: {offered})",
            "The mail server does not offer a login",
        )
    return reply


async def _authenticate(connection: SmtpConnection, seconds: float) -> Reply | None:
    """Send AUTH (RFC 4954) with PLAIN (RFC 4616) or LOGIN, the two that every server has. Return
    the last reply, or None if neither is offered."""
    user, password = connection.server.username.encode(), connection.server.password.encode()
    if "PLAIN" in connection.extensions.auth:
        secret = b64encode(b"\0".join((b"", user, password)))
        return await connection.ask(b"AUTH PLAIN " + secret + b"\r\n", seconds)
    if "LOGIN" in connection.extensions.auth:
        reply = await connection.ask(b"AUTH LOGIN\r\n", seconds)
        for answer in (user, password):
            if reply.code != 334:
                return reply
            reply = await connection.ask(b64encode(answer) + b"\r\n", seconds)
        return reply
    return None


async def _own_name(connection: SmtpConnection) -> str:
    """Return this machine's full name, or its address if it has none (RFC 5321 4.1.4)."""
    name = await asyncio.get_running_loop().run_in_executor(None, socket.getfqdn)
    if "." in name and name.isascii() and not name.endswith(".arpa"):
        return name
    address = connection.address("sockname")
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _context(server: SmtpServer) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=server.ca_file or None)
    except OSError as exc:
        problem = f"cannot read the certificates in ca={server.ca_file}"
        raise _refused(server, problem, "The file of trusted certificates cannot be read") from exc
    if not server.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _expect(server: SmtpServer, stage: SmtpStage, reply: Reply, code: int) -> None:
    if reply.code == code:
        return
    result = judge(stage, reply)
    hint = ": check user and password" if stage is SmtpStage.AUTH and reply.code >= 500 else ""
    raise HandshakeFailed(
        f"{server}: {result.reply}{hint}", result.reason, is_temporary=reply.code < 500
    )


def _unreachable(server: SmtpServer, why: str) -> HandshakeFailed:
    return HandshakeFailed(
        f"{server} cannot be reached: {why}", "The mail server cannot be reached"
    )


def _refused(server: SmtpServer, why: str, reason: str) -> HandshakeFailed:
    """Return a failure that only a change of the configuration can end."""
    return HandshakeFailed(f"{server}: {why}", reason, is_temporary=False)


def _tls_failed(server: SmtpServer, exc: ssl.SSLError) -> HandshakeFailed:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return _refused(
            server,
            f"its certificate is not trusted ({exc.verify_message}): give ca=FILE with the"
            " certificate of its authority, or verify=no to trust anyone",
            "The mail server's certificate is not trusted",
        )
    if exc.reason == "WRONG_VERSION_NUMBER":
        return _refused(
            server,
            "it does not speak TLS from the first byte: use smtp:// here",
            "The mail server does not speak TLS from the first byte (smtp://)",
        )
    return _unreachable(server, f"TLS failed: {exc.reason or exc}")


def _reason(exc: OSError) -> str:
    if isinstance(exc, ConnectionLost):
        return str(exc)
    if isinstance(exc, socket.gaierror):
        return f"its name cannot be resolved ({exc.strerror})"
    # asyncio's own text names the address again.
    return os.strerror(exc.errno) if exc.errno else str(exc) or type(exc).__name__
