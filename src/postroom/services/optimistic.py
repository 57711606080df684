"""Optimistic concurrency: read, decide, write under ETags, and start over if another was faster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from postroom.domain.errors import Overtaken
from postroom.storage import Conflict

T = TypeVar("T")

_MOST_ATTEMPTS: Final = 50
_PAUSE_STEP, _LONGEST_PAUSE = 0.002, 0.05
"""Seconds. Pauses of random, growing length keep many writers from colliding again and again; the
first attempt is repeated at once."""


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], kind: str, name: str, *, most: int = _MOST_ATTEMPTS
) -> T:
    """Return what `attempt` returns; call it again whenever it loses a race.

    `attempt` reads, decides and writes under ETags. It has lost if it raises `Conflict` or
    `Overtaken`. Raise `Overtaken` for this kind and name if it loses `most` times.
    """
    for count in range(most):
        try:
            return await attempt()
        except (Conflict, Overtaken):
            longest = min(_PAUSE_STEP * count, _LONGEST_PAUSE)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311
    raise Overtaken(kind, name)
