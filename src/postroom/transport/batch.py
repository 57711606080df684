"""The emails of one `Transport.send`: which were handed over, and which are settled.

Shared by all transports that hand over several emails at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.contract import Result, ResultKind, Watcher

CLOSED = Result(ResultKind.DEFERRED, "the transport is being closed")
_NOT_SENT = Result(ResultKind.DEFERRED, "not sent")


class EmailBatch:
    """Counts what is open. It is finished when every email is settled or, after `cancel`, every
    email that was handed over."""

    __slots__ = (
        "_handed_over",
        "_open",
        "_waiter",
        "_watcher",
        "cancelled",
        "mailing",
        "recipients",
        "results",
    )

    def __init__(self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher) -> None:
        self.mailing = mailing
        self.recipients = recipients
        self.results = [_NOT_SENT] * len(recipients)
        self.cancelled = False
        self._watcher = watcher
        self._waiter: asyncio.Future[None] | None = None
        self._open = len(recipients)
        self._handed_over = 0

    @property
    def is_finished(self) -> bool:
        return not self._open or (self.cancelled and not self._handed_over)

    async def wait(self, grace_seconds: float, give_up: Callable[[], None]) -> list[Result]:
        """Return the results when all are in.

        If cancelled, wait a little for replies to what was handed over, then call `give_up`,
        which leaves those without a reply in doubt.
        """
        if self.is_finished:
            return self.results
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((self._waiter,))
        except asyncio.CancelledError:
            self.cancel()
            await _wait_despite_cancelling(self._waiter, grace_seconds)
            give_up()
            raise
        return self.results

    def cancel(self) -> None:
        """Hand over no more of its emails."""
        self.cancelled = True
        self._check_finished()

    def _check_finished(self) -> None:
        if self._waiter is not None and not self._waiter.done() and self.is_finished:
            self._waiter.set_result(None)

    # — From its emails —

    def _hand_over(self, position: int) -> None:
        self._handed_over += 1
        self._watcher.handing_over(position)

    def _take_back(self) -> None:
        self._handed_over -= 1
        self._check_finished()

    def _settle(self, position: int, result: Result, was_handed_over: bool) -> None:
        self.results[position] = result
        self._watcher.settled(position, result)
        self._open -= 1
        self._handed_over -= was_handed_over
        if not self._open or self.cancelled:
            self._check_finished()


class BatchEmail(msgspec.Struct, eq=False, gc=False):
    """One email of a batch."""

    batch: EmailBatch
    position: int
    is_handed_over: bool = False

    @property
    def recipient(self) -> Recipient:
        return self.batch.recipients[self.position]

    def hand_over(self) -> None:
        """Record that the byte which completes the email is about to be written. Repeating it after
        a refusal changes nothing."""
        if not self.is_handed_over:
            self.is_handed_over = True
            self.batch._hand_over(self.position)

    def take_back(self) -> None:
        """Record that the server has refused the email and that another server gets it."""
        if self.is_handed_over:
            self.is_handed_over = False
            self.batch._take_back()

    def settle(self, result: Result) -> None:
        """Record the result. Ignored if there is one already, or if the batch was cancelled before
        this email was handed over."""
        batch = self.batch
        if batch.results[self.position] is _NOT_SENT and (
            self.is_handed_over or not batch.cancelled
        ):
            batch._settle(self.position, result, self.is_handed_over)


def settle_alike(result: Result, count: int, watcher: Watcher) -> list[Result]:
    """Settle a whole batch that cannot be sent."""
    for position in range(count):
        watcher.settled(position, result)
    return [result] * count


async def _wait_despite_cancelling(future: asyncio.Future[None], seconds: float) -> None:
    """Wait for the future, however often we are cancelled: leaving early leaves emails in doubt."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not future.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait((future,), timeout=left)
        except asyncio.CancelledError:
            continue
