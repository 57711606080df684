"""Background tasks of the web server, which continue after their request, such as redrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from postroom.domain.errors import NotNow
from postroom.errors import PostroomError
from postroom.services.queues.delivery import QueueService
from postroom.watchdog import end_tasks

log = logging.getLogger(__name__)
T = TypeVar("T")


class Background:
    """Tasks that end with the server; each can be interrupted at any time and repeated."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], what: str) -> asyncio.Task[T]:
        """Start a task; a failure is logged as `what`."""
        task = asyncio.create_task(work, name=what)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        if isinstance(failure, PostroomError):
            log.warning("%s: %s", task.get_name(), failure)
        else:
            log.error("%s failed", task.get_name(), exc_info=failure)

    async def stop(self) -> None:
        """Cancel all tasks."""
        await end_tasks(list(self._tasks))


class RedriveProgress(msgspec.Struct):
    """The progress of a redrive, and its result."""

    queue: str
    moved: int = 0
    is_over: bool = False
    problem: str = ""


class Redrives:
    """Redrives of this server. One that ends with the server is completed by starting it again."""

    def __init__(self, queues: QueueService, background: Background) -> None:
        self._queues = queues
        self._background = background
        self._latest: dict[str, RedriveProgress] = {}

    def start(self, queue: str, *, rate: float | None = None, source: str | None = None) -> None:
        """Move all messages of a subqueue back, at most `rate` per second, or those that the
        queue rejected to `source`. `Invalid`, `NotNow`."""
        self._queues.check_redrive(queue, rate, source)
        latest = self._latest.get(queue)
        if latest is not None and not latest.is_over:
            raise NotNow(f"messages of {queue} are already being redriven: wait until that is done")
        progress = self._latest[queue] = RedriveProgress(queue)
        self._background.start(self._redrive(progress, rate, source), f"redrive of {queue}")

    def latest(self, queue: str) -> RedriveProgress | None:
        """Return the latest redrive of the queue."""
        return self._latest.get(queue)

    async def _redrive(
        self, progress: RedriveProgress, rate: float | None, source: str | None
    ) -> None:
        def moved(count: int) -> None:
            progress.moved = count

        try:
            await self._queues.redrive(progress.queue, rate=rate, source=source, progress=moved)
        except PostroomError as exc:
            progress.problem = str(exc)
            raise
        finally:
            progress.is_over = True
