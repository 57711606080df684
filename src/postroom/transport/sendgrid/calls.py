"""Emails of overlapping sends, joined into calls.

A sender sends a page of 100 at a time; a call may carry 1,000. So emails wait a few milliseconds
for others of the same mailing, and longer only while all connections are busy. Each email belongs
to its own batch, which learns what becomes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from postroom.transport.contract import Result, ResultKind
from postroom.transport.sendgrid.batch import SendgridBatch

MOST_RECIPIENTS = 1000  # personalizations of one call
COLLECT_SECONDS = 0.01

_CLOSED = Result(ResultKind.DEFERRED, "the transport is being closed")

Email = tuple[SendgridBatch, int]
"""A batch, and a position in it."""


class Calls:
    """Makes at most so many calls at once, first come first served."""

    def __init__(self, make: Callable[[list[Email]], Coroutine[None, None, None]], most: int):
        self._make = make
        self._most = most
        self._waiting: dict[int, list[Email]] = {}  # by the identity of their mailing
        self._running: dict[asyncio.Task[None], list[Email]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, batch: SendgridBatch, positions: list[int]) -> None:
        if positions:
            waiting = self._waiting.setdefault(id(batch.mailing), [])
            waiting += [(batch, position) for position in positions]
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(COLLECT_SECONDS, self._start)

    async def close(self) -> None:
        """Stop: calls without an answer leave their emails in doubt, the others are not made."""
        left = [each for emails in self._waiting.values() for each in emails]
        left += [each for emails in self._running.values() for each in emails]
        self._waiting.clear()
        if self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)
        for batch, position in left:
            batch.doubt("closed")
            batch.settle(position, _CLOSED)

    def _start(self) -> None:
        """Make calls for what waits, as far as connections are free."""
        self._timer = None
        while self._waiting and len(self._running) < self._most:
            mailing, emails = next(iter(self._waiting.items()))
            if len(emails) <= MOST_RECIPIENTS:
                del self._waiting[mailing]
            else:
                self._waiting[mailing] = emails[MOST_RECIPIENTS:]
            emails = emails[:MOST_RECIPIENTS]
            task = asyncio.get_running_loop().create_task(self._make(emails))
            self._running[task] = emails
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.result()
            self._start()
