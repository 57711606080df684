"""One connection to a mail server: bytes in, bytes out. The dialogue decides what they mean."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Protocol, cast

from postroom.errors import PostroomError
from postroom.transport.contract import Result
from postroom.transport.smtp.backlog import Backlog
from postroom.transport.smtp.dialogue import Dialogue
from postroom.transport.smtp.replies import Extensions, Reply, ReplyReader
from postroom.transport.smtp.servers import SmtpServer


class ConnectionLost(PostroomError, ConnectionError):
    """The server closed the connection while it was being opened."""


class ConnectionOwner(Protocol):
    """What a connection reports to: the pool."""

    def resting(self, connection: SmtpConnection) -> None: ...

    def gone(self, connection: SmtpConnection) -> None: ...

    def fails(self, connection: SmtpConnection, result: Result) -> bool: ...


class SmtpConnection(asyncio.Protocol):
    """Sends single commands (`ask`) until `serve`; then a dialogue takes over."""

    def __init__(self, server: SmtpServer, owner: ConnectionOwner) -> None:
        self.server = server
        self.extensions = Extensions()
        self.greeting = ""
        self.dialogue: Dialogue | None = None
        self.moved_at = 0.0
        """When the server last did what we waited for."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._reader = ReplyReader()
        self._replies: deque[Reply] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._problem = ""
        self._is_leaving = False
        self.is_retired = False

    # — While it is being opened —

    async def ask(self, command: bytes, seconds: float) -> Reply:
        """Send a command and return its reply; raise `ConnectionLost` or `TimeoutError`."""
        if self._transport is None or self._problem:
            raise ConnectionLost(self._problem or "not connected")
        self._transport.write(command)
        return await self.reply(seconds)

    async def reply(self, seconds: float) -> Reply:
        """Return the next reply."""
        async with asyncio.timeout(seconds):
            while not self._replies:
                if self._problem:
                    raise ConnectionLost(self._problem)
                self._waiter = self._loop.create_future()
                await self._waiter
        return self._replies.popleft()

    @property
    def is_silent(self) -> bool:
        """Whether no unread part of a reply has arrived."""
        return self._reader.is_empty and not self._replies

    async def start_tls(self, context: ssl.SSLContext, seconds: float) -> None:
        if self._transport is None or self._problem or not self.is_silent:
            # Unencrypted text must not count after the handshake (RFC 3207 5).
            raise ConnectionLost("the server sent something between STARTTLS and the handshake")
        secured = await self._loop.start_tls(
            self._transport,
            self,
            context,
            server_hostname=self.server.host,
            ssl_handshake_timeout=seconds,
        )
        if secured is None:
            raise ConnectionLost("closed during the handshake")
        self._transport = secured

    def serve(self, backlog: Backlog) -> None:
        """Send emails of the backlog from now on."""
        self.dialogue = Dialogue(str(self.server), self.extensions, backlog, self)
        if self.server.emails_per_connection or backlog.has_quotas:
            self.dialogue.count_emails(self.server.emails_per_connection)
        self.moved_at = self._loop.time()

    @property
    def tls_version(self) -> str | None:
        found = self._transport and self._transport.get_extra_info("ssl_object")
        return cast(ssl.SSLObject, found).version() if found else None

    def address(self, which: str) -> str:
        """Return the IP address of our end (`sockname`) or of the server (`peername`)."""
        found = self._transport and self._transport.get_extra_info(which)
        return str(found[0]) if found else ""

    # — While it sends (the dialogue's channel) —

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def disconnect(self) -> None:
        self._is_leaving = True
        if self._transport is not None:
            self._transport.abort()

    def rest(self) -> None:
        if self.dialogue is not None and self.dialogue.is_retired:
            self.is_retired = True
        self._owner.resting(self)

    def fails(self, result: Result) -> bool:
        return self._owner.fails(self, result)

    def wake(self) -> None:
        if self.dialogue is not None:
            self.moved_at = self._loop.time()
            self.dialogue.wake()

    def count_emails(self) -> None:
        """Count its emails from now on: there are providers that limit them."""
        if self.dialogue is not None:
            self.dialogue.count_emails()

    def retire(self) -> None:
        """Finish the emails in progress and take no more."""
        self.is_retired = True
        if self.dialogue is not None:
            self.dialogue.retire()

    def give_up(self, reason: str, *, retry: bool) -> None:
        """Stop waiting; settle the emails in progress now, not when the socket is closed."""
        if self.dialogue is not None:
            self.dialogue.lost(reason, retry=retry)
        self.disconnect()

    def leave(self, seconds: float) -> None:
        """Send QUIT (RFC 5321 4.1.1.10) and close, whether it is answered or not."""
        if self._transport is None or self._is_leaving:
            return
        self._is_leaving = True
        self._transport.write(b"QUIT\r\n")
        self._loop.call_later(seconds, self._transport.abort)

    # — From asyncio —

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._is_leaving:
            if self._transport is not None:
                self._transport.close()
        elif self.dialogue is not None:
            if self.dialogue.received(data):
                self.moved_at = self._loop.time()
        else:
            self._received_while_opening(data)

    def pause_writing(self) -> None:
        if self.dialogue is not None:
            self.dialogue.paused()

    def resume_writing(self) -> None:
        if self.dialogue is not None:
            self.moved_at = self._loop.time()
            self.dialogue.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection broke: {exc}" if exc else "the server closed the connection")
        if self.dialogue is not None:
            self.dialogue.lost(self._problem)
        if not self.closed.done():
            self.closed.set_result(None)
        self._owner.gone(self)

    def _received_while_opening(self, data: bytes) -> None:
        self._replies.extend(self._reader.feed(data))
        if self._reader.problem:
            self._fail(f"the server sent {self._reader.problem}")
            self.disconnect()
        else:
            self._notify()

    def _fail(self, problem: str) -> None:
        self._problem = self._problem or problem
        self._notify()

    def _notify(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
