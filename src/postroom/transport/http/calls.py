"""Emails of overlapping sends, joined into calls.

The sender sends one page of 100 emails at a time; a call may carry more. So emails wait a few
milliseconds for others of the same mailing, and longer only while all connections are busy. Each
email still belongs to its own batch, which gets its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from postroom.transport.batch import CLOSED, BatchEmail, EmailBatch
from postroom.transport.contract import Result, ResultKind

COLLECT_SECONDS = 0.01


class HttpEmail(BatchEmail):
    """One email, with its part of a call."""

    __slots__ = ("common", "personal")

    def __init__(
        self,
        batch: EmailBatch,
        position: int,
        common: Mapping[str, object],
        personal: Mapping[str, object],
    ) -> None:
        super().__init__(batch, position)
        self.common = common
        self.personal = personal

    def settle_unanswered(self, problem: str) -> None:
        """Leave it in doubt if it was handed over and has no result yet."""
        if self.is_handed_over:
            self.settle(Result(ResultKind.IN_DOUBT, problem))


class CallQueue:
    """Starts a limited number of calls at once, in order of arrival."""

    def __init__(
        self,
        call: Callable[[list[HttpEmail]], Coroutine[None, None, None]],
        *,
        most_calls: int,
        most_emails: int,
    ) -> None:
        self._call = call
        self._most_calls = most_calls
        self._most_emails = most_emails
        self._waiting: dict[int, list[HttpEmail]] = {}  # by the identity of their mailing
        self._running: dict[asyncio.Task[None], list[HttpEmail]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, emails: list[HttpEmail]) -> None:
        """Queue emails of one batch."""
        if emails:
            self._waiting.setdefault(id(emails[0].batch.mailing), []).extend(emails)
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(COLLECT_SECONDS, self._start)

    async def close(self) -> None:
        """Cancel all calls: emails without a response are in doubt, queued ones are deferred."""
        left = [each for emails in self._waiting.values() for each in emails]
        left += [each for emails in self._running.values() for each in emails]
        self._waiting.clear()
        if self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)
        for email in left:
            email.settle_unanswered("closed")
            email.settle(CLOSED)

    def _start(self) -> None:
        """Start calls for the queued emails while connections are free."""
        self._timer = None
        while self._waiting and len(self._running) < self._most_calls:
            mailing, emails = next(iter(self._waiting.items()))
            if len(emails) <= self._most_emails:
                del self._waiting[mailing]
            else:
                self._waiting[mailing] = emails[self._most_emails :]
            emails = emails[: self._most_emails]
            task = asyncio.get_running_loop().create_task(self._call(emails))
            self._running[task] = emails
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.result()
            self._start()
