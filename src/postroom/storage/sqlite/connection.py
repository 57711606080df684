"""Connections to the file, and the threads that use them.

The writing thread (`writer.py`) takes all waiting jobs at once, reading threads one at a time.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from postroom.storage.errors import AccessDenied, EngineTooOld, StoreClosed
from postroom.storage.sqlite.errors import translate, translated

# Up to 3.51.2, several processes that reset a WAL file at once could corrupt the database.
SAFE_VERSION = 3_051_003
BUSY_SECONDS = 30.0
T = TypeVar("T")
_STATEMENTS = 256  # each table has about a dozen; the cache must hold them all
_CACHE_KIB = 2_048  # per connection; the system's cache has the rest, shared by all
_WAL_PAGES = 8_192  # checkpoint after 32 MiB: fewer, larger transfers into the database file
_THREADS = 3


def open_connection(path: Path) -> apsw.Connection:
    """Return a connection for one thread, durable (`synchronous=FULL`) and in WAL mode."""
    if apsw.SQLITE_VERSION_NUMBER < SAFE_VERSION:
        raise EngineTooOld(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a file that several processes use:"
            " install apsw 3.54 or newer"
        )
    with translated(path):
        connection = apsw.Connection(str(path), statementcachesize=_STATEMENTS)
        connection.set_busy_handler(_BusyHandler())
        if connection.readonly("main"):
            connection.close()
            raise AccessDenied(
                f"{path} cannot be written: check the permissions of the file and its folder"
            )
    with translated(path, connection):
        _switch_to_wal(connection)
        connection.pragma("synchronous", "full")
        connection.pragma("wal_autocheckpoint", _WAL_PAGES)
        connection.pragma("cache_size", -_CACHE_KIB)
    return connection


def _switch_to_wal(connection: apsw.Connection) -> None:
    """Retry: SQLite does not call the busy handler if two processes do this with a new file."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.pragma("journal_mode", "wal")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.01))


class _BusyHandler:
    """Retries soon: SQLite's own handler sleeps up to 100 ms, while a commit takes one or two.

    The random part keeps waiting processes from retrying in step.
    """

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, attempt: int) -> bool:
        now = time.monotonic()
        if attempt == 0:
            self._since = now
        if now - self._since > BUSY_SECONDS:
            return False
        time.sleep(random.uniform(0.0002, 0.001 + min(attempt, 10) * 0.0005))
        return True


class Job:
    """Work for a thread with a connection, and its result."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[apsw.Connection], Any], done: asyncio.Future[Any]) -> None:
        self.work = work
        self.done = done
        self.result: Any = None
        self.error: BaseException | None = None


class Jobs:
    """Jobs that wait for a thread; lighter than `run_in_executor`, which makes a second future for
    each call. Once closed, it takes no more, and its threads end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Have `work` done by one of the threads; return its result."""
        if self._closed:
            raise StoreClosed("the store is closed")
        job = Job(work, self._loop.create_future())
        self._waiting.put(job)
        result: T = await job.done
        return result

    def close(self, threads: int) -> None:
        """Take no more jobs; each thread ends when the earlier ones are done."""
        self._closed = True
        for _ in range(threads):
            self._waiting.put(None)

    @property
    def closed(self) -> bool:
        return self._closed

    # — For the threads —

    def take(self, most: int) -> list[Job]:
        """Wait for a job and take up to `most` that are waiting. Empty: there will be no more."""
        taken: list[Job] = []
        job = self._waiting.get()
        while job is not None:
            taken.append(job)
            if len(taken) == most:
                return taken
            try:
                job = self._waiting.get_nowait()
            except Empty:
                return taken
        if taken:
            self._waiting.put(None)  # to be seen by the next take
        return taken

    def answer(self, jobs: Sequence[Job]) -> None:
        try:
            self._loop.call_soon_threadsafe(_resolve, jobs)
        except RuntimeError:
            return  # the event loop is gone, and with it all callers


def _resolve(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.done.done():
            continue  # cancelled while it was running; it still took effect
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.result)


class Readers:
    """Runs reads outside the event loop, in a few threads with a connection each: a long scan does
    not delay other reads. Each sees every write that returned before it."""

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
