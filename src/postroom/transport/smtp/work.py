"""The emails that wait for a connection, and what is known of each batch of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from postroom.mail.envelope import all_plain, envelope_address, needs_smtputf8
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.contract import Result, ResultKind, Scope, Watcher

MOST_ATTEMPTS = 3
"""Connections that an email may see break, or servers that may refuse it, before it is settled."""

_UNSETTLED = Result(ResultKind.DEFERRED, "not sent")


class Batch:
    """The emails of one `send`."""

    __slots__ = (
        "_finished",
        "_handed_over",
        "_open",
        "_watcher",
        "arrived",
        "cancelled",
        "mail_command",
        "mailing",
        "plain",
        "recipients",
        "results",
        "taken",
        "utf8",
    )

    def __init__(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        finished: Callable[[], None],
        arrived: float = 0.0,
    ) -> None:
        self.mailing = mailing
        self.recipients = recipients
        self.results = [_UNSETTLED] * len(recipients)
        self.taken = 0
        self.arrived = arrived
        self.cancelled = False
        sender = mailing.from_address
        self.mail_command = f"MAIL FROM:<{envelope_address(sender)}>"
        self.utf8 = mailing.needs_smtputf8 or needs_smtputf8(sender)
        self.plain = all_plain([each.address for each in recipients])
        self._watcher = watcher
        self._finished = finished
        self._open = len(recipients)
        self._handed_over = 0

    def hand_over(self, position: int) -> None:
        self._handed_over += 1
        self._watcher.handing_over(position)

    def take_back(self) -> None:
        self._handed_over -= 1
        if self.cancelled and not self._handed_over:
            self._finished()

    def settle(self, position: int, result: Result, handed_over: bool) -> None:
        self.results[position] = result
        self._watcher.settled(position, result)
        self._open -= 1
        self._handed_over -= handed_over
        if not self._open or (self.cancelled and not self._handed_over):
            self._finished()

    def cancel(self) -> None:
        """Nothing more of it is handed over; it is finished when what was is settled."""
        self.cancelled = True
        if not self._handed_over:
            self._finished()


class Email:
    """One email of a batch, while it is on its way through a connection."""

    __slots__ = (
        "_handed_over",
        "attempts",
        "batch",
        "content",
        "envelope",
        "position",
        "recipient",
    )

    def __init__(self, batch: Batch, position: int) -> None:
        self.batch = batch
        self.position = position
        self.recipient = batch.recipients[position]
        self.content = b""
        self.envelope = b""  # MAIL, RCPT and DATA: pipelined they are one write
        self.attempts = 0
        self._handed_over = False

    def hand_over(self) -> None:
        """The byte that completes it is about to be written."""
        self._handed_over = True
        self.batch.hand_over(self.position)

    def take_back(self) -> None:
        """The server has refused it, and another one shall have it."""
        if self._handed_over:
            self._handed_over = False
            self.batch.take_back()

    def settle(self, result: Result) -> None:
        # What was cancelled before it was handed over is nobody's business any more.
        if self._handed_over or not self.batch.cancelled:
            self.batch.settle(self.position, result, self._handed_over)


class Work:
    """All emails that wait, of all batches, first come first served.

    Positions of a batch are counted up, not queued: nothing is made for an email before a
    connection takes it.
    """

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._again: deque[Email] = deque()

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)

    def take(self) -> Email | None:
        """The next email, if there is one."""
        while self._again:
            email = self._again.popleft()
            if not email.batch.cancelled:
                return email
        while self._batches:
            batch = self._batches[0]
            position = batch.taken
            batch.taken = position + 1
            if batch.cancelled or batch.taken >= len(batch.recipients):
                self._batches.popleft()
            if not batch.cancelled:
                return Email(batch, position)
        return None

    def give_back(self, email: Email, result: Result, *, counts: bool) -> None:
        """Let another connection try an email that was certainly not delivered, unless enough have:
        then `result` is what became of it.

        `counts` is false when the connection broke while another email had its turn.
        """
        email.attempts += counts
        if email.attempts < MOST_ATTEMPTS:
            email.take_back()
            self._again.append(email)
            return
        email.settle(result)
        if result.kind is ResultKind.HELD and result.scope is Scope.ACCOUNT:
            self.settle_all(result)

    @property
    def waiting(self) -> int:
        return len(self._again) + sum(
            len(batch.recipients) - batch.taken for batch in self._batches if not batch.cancelled
        )

    def oldest(self) -> float | None:
        """When the first of the waiting emails arrived."""
        arrived = [each.arrived for each in self._waiting_batches()]
        return min(arrived) if arrived else None

    def settle_all(self, result: Result, arrived_by: float = float("inf")) -> None:
        """Give up on all emails that wait, or on those of batches that arrived by then."""
        self._settle_those(result, lambda batch: batch.arrived <= arrived_by)

    def settle_mailing(self, result: Result, mailing: Mailing) -> None:
        """Give up on the waiting emails of a mailing."""
        self._settle_those(result, lambda batch: batch.mailing is mailing)

    def _settle_those(self, result: Result, concerns: Callable[[Batch], bool]) -> None:
        kept: list[Email] = []
        while (email := self.take()) is not None:
            if concerns(email.batch):
                email.settle(result)
            else:
                kept.append(email)
        self._again.extend(kept)

    def _waiting_batches(self) -> Iterator[Batch]:
        for email in self._again:
            if not email.batch.cancelled:
                yield email.batch
        for batch in self._batches:
            if not batch.cancelled:
                yield batch
