"""Reading connections: a few threads with one each, so that a long scan holds up no point read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from postroom.storage.errors import StoreClosed
from postroom.storage.sqlite.connection import open_connection
from postroom.storage.sqlite.errors import translate

T = TypeVar("T")
_THREADS = 4


class Readers:
    """Runs reads outside the event loop. Each sees every write that returned before it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sqlite-reader")
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._closed = False

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreClosed("the store is closed")
        return await self._loop.run_in_executor(self._threads, self._read, work)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._loop.run_in_executor(None, self._threads.shutdown)
        for connection in self._connections:
            connection.close()

    def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_connection(self._path)
            self._connections.append(connection)
        try:
            return work(connection)
        except apsw.Error as exc:
            raise translate(exc, self._path, connection) from exc
