"""Reading connections: a few threads with one each, so that a long scan holds up no point read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from postroom.storage.sqlite.connection import open_connection
from postroom.storage.sqlite.errors import translate
from postroom.storage.sqlite.jobs import Jobs

T = TypeVar("T")
_THREADS = 3


class Readers:
    """Runs reads outside the event loop. Each sees every write that returned before it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs = Jobs()
        self._threads = [
            threading.Thread(target=self._run, name=f"sqlite-reader-{number}", daemon=True)
            for number in range(_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._jobs.run(work)

    async def close(self) -> None:
        if not self._jobs.closed:
            self._jobs.close(_THREADS)
            for thread in self._threads:
                await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while jobs := self._jobs.take(1):
            [job] = jobs
            try:
                connection = connection or open_connection(self._path)
                job.result = job.work(connection)
            except apsw.Error as exc:
                job.error = translate(exc, self._path, connection)
                job.error.__cause__ = exc
            except Exception as exc:
                job.error = exc
            self._jobs.answer(jobs)
        if connection is not None:
            connection.close()
