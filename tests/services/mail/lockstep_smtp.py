"""A mail server that replies to all its connections at the same moment, when a test says so.

Meanwhile every connection has as many emails in progress as it can: the worst moment for a fault to
begin. It runs in the test's own event loop:

    async with lockstep_smtp() as server:
        …
        await server.answer_all()
        server.refuses_at = "RCPT"
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.services.waiting import LOOPBACK

UNKNOWN = "550 5.5.0 Ask the wizard on level 7 about you"


class LockstepSmtp:
    """Offers PIPELINING. `refuses_at` is "RCPT", "end" or empty; `touched` are those refused."""

    def __init__(self) -> None:
        self.url = ""
        self.refuses_at = ""
        self.refusal = UNKNOWN
        self.accepted = 0
        self.touched: set[str] = set()
        self._connections: set[_Connection] = set()

    @property
    def busy(self) -> int:
        """How many connections wait for a reply."""
        return sum(each.is_waiting for each in self._connections)

    async def answer_all(self) -> None:
        """Wait until nothing more arrives, then reply to everything that has."""
        await self.until_quiet()
        for each in list(self._connections):
            each.answer()

    async def until_quiet(self) -> None:
        heard = -1
        for _ in range(200):
            await asyncio.sleep(0.005)
            now = sum(each.heard for each in self._connections)
            if now == heard:
                break
            heard = now

    def added(self, connection: "_Connection") -> None:
        self._connections.add(connection)

    def removed(self, connection: "_Connection") -> None:
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    def __init__(self, server: LockstepSmtp) -> None:
        self.heard = 0
        self._server = server
        self._waiting = b""
        self._recipient = ""
        self._in_content = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.added(self)
        transport.write(b"220 lockstep\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.removed(self)

    def data_received(self, data: bytes) -> None:
        self.heard += len(data)
        if data.startswith(b"EHLO"):
            self._transport.write(b"250-lockstep\r\n250 PIPELINING\r\n")
        elif data.startswith(b"QUIT"):
            self._transport.close()
        else:
            self._waiting += data

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def answer(self) -> None:
        replies = []
        while reply := self._next_reply():
            replies.append(f"{reply}\r\n")
        if replies:
            self._transport.write("".join(replies).encode())

    def _next_reply(self) -> str:
        if self._in_content:
            _, end, rest = self._waiting.partition(b"\r\n.\r\n")
            if not end:
                return ""
            self._waiting, self._in_content = rest, False
            return self._judged("end", "250 2.0.0 taken")
        line, end, rest = self._waiting.partition(b"\r\n")
        if not end:
            return ""
        self._waiting = rest
        command = line.decode()
        if command.startswith("RCPT"):
            self._recipient = command.partition("<")[2].partition(">")[0]
            reply = self._judged("RCPT", "250 2.1.5 ok")
            self._recipient = self._recipient if reply.startswith("2") else ""
            return reply
        if command.startswith("DATA"):
            self._in_content = bool(self._recipient)
            return "354 go on" if self._recipient else "503 5.5.1 no recipient"
        return "250 2.0.0 ok"

    def _judged(self, stage: str, positive: str) -> str:
        if self._server.refuses_at == stage:
            self._server.touched.add(self._recipient)
            return self._server.refusal
        self._server.accepted += stage == "end"
        return positive


@asynccontextmanager
async def lockstep_smtp() -> AsyncIterator[LockstepSmtp]:
    """Start the server on a free port of loopback."""
    server = LockstepSmtp()
    listening = await asyncio.get_running_loop().create_server(
        lambda: _Connection(server), LOOPBACK, 0
    )
    server.url = f"smtp://{LOOPBACK}:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server
