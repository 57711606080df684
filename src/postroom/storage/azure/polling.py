"""Waiting for messages by looking: Azure does not notify."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
"""The price of an empty queue (a request every two seconds) against the delay of the first message
after a quiet time. `azure://…?poll=10` chooses another."""

_GROWTH: Final = 1.5
CONCURRENCY: Final = 8
"""Requests at a time when many queues are looked at."""


class Pace:
    """How long to pause between two looks at what: longer after each vain one, over all waits."""

    def __init__(self, longest: float = LONGEST_PAUSE) -> None:
        self._longest = longest
        self._pauses: dict[Hashable, float] = {}

    def quicken(self, what: Hashable) -> None:
        """Something is there, or was just put: more may follow soon."""
        self._pauses.pop(what, None)

    def next_pause(self, what: Hashable) -> float:
        pause = self._pauses.get(what, FIRST_PAUSE)
        self._pauses[what] = min(_GROWTH * pause, self._longest)
        return pause

    async def until_found(
        self, what: Hashable, look: Callable[[], Awaitable[T]], timeout: float
    ) -> T:
        """Look until there is something (true), or until `timeout`; answers the last look."""
        deadline = time.monotonic() + timeout
        while True:
            found = await look()
            if found:
                self.quicken(what)
                return found
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return found
            await asyncio.sleep(min(self.next_pause(what), remaining))


async def gathered(
    call: Callable[[T], Awaitable[R]], arguments: Iterable[T], most: int = CONCURRENCY
) -> list[R]:
    """The answers to all calls in order, a few calls at a time."""
    places = asyncio.Semaphore(most)

    async def one(argument: T) -> R:
        async with places:
            return await call(argument)

    try:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(one(argument)) for argument in arguments]
    except BaseExceptionGroup as group:
        # One call failed and the others were cancelled: its error is the error.
        raise group.exceptions[0] from None
    return [task.result() for task in started]
