"""Redrives in the background: of thousands of messages, or a few per second."""

from __future__ import annotations

import msgspec

from postroom.domain.errors import NotNow
from postroom.errors import PostroomError
from postroom.services.queues.delivery import QueueService
from postroom.web.background.tasks import Background


class Redriving(msgspec.Struct):
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
        self._latest: dict[str, Redriving] = {}

    def start(self, queue: str, *, rate: float | None = None, source: str | None = None) -> None:
        """Move all messages of a subqueue back, at most `rate` per second, or those that the
        queue rejected to `source`. `Invalid`, `NotNow`."""
        self._queues.check_redrive(queue, rate, source)
        latest = self._latest.get(queue)
        if latest is not None and not latest.is_over:
            raise NotNow(f"messages of {queue} are already being redriven: wait until that is done")
        redriving = self._latest[queue] = Redriving(queue)
        self._background.start(self._redrive(redriving, rate, source), f"redrive of {queue}")

    def latest(self, queue: str) -> Redriving | None:
        """Return the latest redrive of the queue."""
        return self._latest.get(queue)

    async def _redrive(self, redriving: Redriving, rate: float | None, source: str | None) -> None:
        def moved(count: int) -> None:
            redriving.moved = count

        try:
            await self._queues.redrive(redriving.queue, rate=rate, source=source, progress=moved)
        except PostroomError as exc:
            redriving.problem = str(exc)
            raise
        finally:
            redriving.is_over = True
