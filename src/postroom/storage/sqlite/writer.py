"""Group commit: the writers of one process share transactions.

One thread owns the only connection that writes. It takes all waiting jobs and commits them
together: while one group is being flushed to disk, the next one gathers. A job's future is
resolved after the commit, never before.

A failed job does not affect the others of its group. Most failures happen before anything was
written, so jobs run without savepoints at first. If one fails after it has written, the group is
rolled back and run again with a savepoint around each job. The reason is the GIL: every statement
releases it, and with a busy event loop it can take a whole switch interval to get it back. For the
same reason, frequent statements write a whole page in one step.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from postroom.errors import PostroomError
from postroom.storage.errors import StoreMissing
from postroom.storage.sqlite.connection import Job, Jobs, open_connection
from postroom.storage.sqlite.errors import translate

T = TypeVar("T")

# Limits how long one group keeps other processes from writing.
_JOBS_PER_GROUP = 256


class UnexpectedData(PostroomError):
    """The data was not as a job expected. `explain` returns why, once its writes are undone."""

    def __init__(self, explain: Callable[[apsw.Connection], Exception]) -> None:
        super().__init__()
        self.explain = explain


class _HasWritten(PostroomError):
    """A job failed after it had written: the group is run again with savepoints."""


class Writer:
    """The only writing connection of this process, and its thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_connection(path)
        self._identity = _identity(path)
        self._jobs = Jobs()
        self._thread = threading.Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do `work` in the writing thread, inside a transaction; return once it is durable.

        It may be run again after a rollback, so it must depend on the connection alone.
        """
        return await self._jobs.run(work)

    async def close(self) -> None:
        """Finish the waiting jobs, then close the file."""
        if not self._jobs.closed:
            self._jobs.close(threads=1)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while group := self._jobs.take(_JOBS_PER_GROUP):
            self._commit(group)
            self._jobs.answer(group)
        self._connection.close()

    def _commit(self, group: list[Job]) -> None:
        try:
            try:
                self._run_group(group, self._run_plainly)
            except _HasWritten:
                self._roll_back()
                self._run_group(group, self._run_in_savepoint)
        except Exception as exc:
            # Nothing of the group was written: SQLite rolled back, or does so now.
            error = self._translated(exc)
            self._roll_back()
            for job in group:
                job.error = job.error or error

    def _run_group(self, group: list[Job], run: Callable[[Job], None]) -> None:
        if _identity(self._path) != self._identity:
            # SQLite would continue to write into a file that no longer has a name.
            raise StoreMissing(
                f"{self._path} was deleted or replaced while in use: put it back; or stop Postroom,"
                " restore it from a backup and start again"
            )
        self._connection.execute("BEGIN IMMEDIATE")
        for job in group:
            job.error = None
            run(job)
        self._connection.execute("COMMIT")

    def _run_plainly(self, job: Job) -> None:
        connection = self._connection
        before = connection.total_changes()
        try:
            job.result = job.work(connection)
        except Exception as exc:
            if not connection.in_transaction:
                raise  # on a full disk, SQLite rolls back the whole transaction
            if connection.total_changes() != before:
                raise _HasWritten from exc
            job.error = self._explained(exc)

    def _run_in_savepoint(self, job: Job) -> None:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(connection)
        except Exception as exc:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            job.error = self._explained(exc)
        connection.execute("RELEASE job")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _explained(self, exc: Exception) -> Exception:
        if isinstance(exc, UnexpectedData):
            return exc.explain(self._connection)
        return self._translated(exc)

    def _translated(self, exc: Exception) -> Exception:
        if not isinstance(exc, apsw.Error):
            return exc
        error = translate(exc, self._path, self._connection)
        error.__cause__ = exc
        return error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, to recognise another of the same name; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
