"""Work that is handed to a thread, and its answer that comes back to the event loop.

The writer takes all that waits at once, readers one at a time. It is also lighter than
`run_in_executor`, which makes a second future for each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from postroom.storage.errors import StoreClosed

T = TypeVar("T")


class Job:
    """Something to do with a connection, and what came of it."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[apsw.Connection], Any], done: asyncio.Future[Any]) -> None:
        self.work = work
        self.done = done
        self.result: Any = None
        self.error: BaseException | None = None


class Jobs:
    """The jobs that wait for a thread. Closed, it takes no more, and threads see its end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Have `work` done by a thread that takes from here."""
        if self._closed:
            raise StoreClosed("the store is closed")
        job = Job(work, self._loop.create_future())
        self._waiting.put(job)
        result: T = await job.done
        return result

    def close(self, threads: int) -> None:
        """No more jobs; each of the threads gets to know once those before are done."""
        self._closed = True
        for _ in range(threads):
            self._waiting.put(None)

    @property
    def closed(self) -> bool:
        return self._closed

    # -- called by the threads -----------------------------------------------------------

    def take(self, most: int) -> list[Job]:
        """Wait for a job and take the others that wait, too. Empty: there will be no more."""
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
            return  # the event loop is gone, and with it everybody who waited


def _resolve(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.done.done():
            continue  # cancelled while it was under way; it took effect all the same
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.result)
