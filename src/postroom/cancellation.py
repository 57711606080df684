"""Reliable cancellation of asyncio tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and return when all of them have ended, with any result.

    A cancellation can get lost: an interrupted library may raise its own error instead, which the
    task then handles. So it is repeated every second.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=_AGAIN_SECONDS)
        for task in ended:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.debug("%r ended with %r", task, error)
