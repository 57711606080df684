"""A TCP proxy whose connections can be frozen: they stay open, and nothing passes any more.

That is what a firewall looks like that has forgotten a connection. New connections work.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.services.waiting import LOOPBACK


class TcpProxy:
    def __init__(self, target: int) -> None:
        self._target = target
        self._frozen: list[asyncio.Event] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    def freeze(self) -> None:
        """Freeze the connections that are open now."""
        for each in self._frozen:
            each.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self._target)
        frozen = asyncio.Event()
        self._frozen.append(frozen)
        self._writers += [writer, there_writer]
        await asyncio.gather(
            self._pass_on(reader, there_writer, frozen), self._pass_on(there_reader, writer, frozen)
        )

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frozen: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if frozen.is_set():
                    return  # swallowed
                writer.write(data)
                await writer.drain()
            if not frozen.is_set():
                writer.close()

    def close(self) -> None:
        for each in self._writers:
            each.close()


@asynccontextmanager
async def running_proxy(target: int) -> AsyncIterator[TcpProxy]:
    """Accept connections on a free port and pass them on to the port `target`."""
    proxy = TcpProxy(target)
    server = await asyncio.start_server(proxy._accept, LOOPBACK, 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.close()
