"""Background tasks of the web server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from postroom.errors import PostroomError

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
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
