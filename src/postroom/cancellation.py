"""Ending asyncio tasks for certain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and return when all of them have ended, whatever they end with.

    A task can lose its cancellation: a library that is interrupted may raise an error of its own
    instead, which the task then handles like any other. So the cancellation is repeated.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=_AGAIN_SECONDS)
        for task in ended:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.debug("%r ended with %r", task, error)
