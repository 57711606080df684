"""The emails that wait for a connection, and the batches that they belong to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.wire_addresses import all_plain, envelope_address, needs_smtputf8
from postroom.transport.batch import BatchEmail, EmailBatch
from postroom.transport.contract import FaultScope, Result, ResultKind, Watcher
from postroom.transport.smtp.brake import Brake

MOST_ATTEMPTS = 3
"""How often the connection of an email may break, or a server refuse it, before it is settled."""


class SmtpBatch(EmailBatch):
    """The emails of one `send`, with what their envelopes have in common."""

    __slots__ = ("arrived", "mail_command", "plain", "taken", "utf8")

    def __init__(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        arrived: float = 0.0,
    ) -> None:
        super().__init__(mailing, recipients, watcher)
        self.arrived = arrived
        self.taken = 0
        sender = mailing.from_address
        self.mail_command = f"MAIL FROM:<{envelope_address(sender)}>"
        self.utf8 = mailing.needs_smtputf8 or needs_smtputf8(sender)
        self.plain = all_plain([each.address for each in recipients])


class SmtpEmail(BatchEmail):
    """One email while it is on a connection."""

    __slots__ = ("attempts", "content", "envelope", "refusals_before")

    batch: SmtpBatch

    def __init__(self, batch: SmtpBatch, position: int) -> None:
        super().__init__(batch, position)
        self.content = b""
        self.envelope = b""  # MAIL, RCPT and DATA: one write if pipelined
        self.attempts = 0
        self.refusals_before = 0  # as `Brake.refusals` was when it was taken


class Backlog:
    """All waiting emails of all batches, in order of arrival.

    Positions of a batch are counted, not queued: no object exists for an email before a connection
    takes it.
    """

    def __init__(self) -> None:
        self._batches: deque[SmtpBatch] = deque()
        self._retries: deque[SmtpEmail] = deque()
        self.brake = Brake()

    def add(self, batch: SmtpBatch) -> None:
        self._batches.append(batch)

    def take(self) -> SmtpEmail | None:
        """Return the next email, if there is one."""
        while self._retries:
            email = self._retries.popleft()
            if not email.batch.cancelled:
                return email
        while self._batches:
            batch = self._batches[0]
            position = batch.taken
            batch.taken = position + 1
            if batch.cancelled or batch.taken >= len(batch.recipients):
                self._batches.popleft()
            if not batch.cancelled:
                return SmtpEmail(batch, position)
        return None

    def give_back(self, email: SmtpEmail, result: Result, *, counts: bool) -> None:
        """Let another connection try an email that was certainly not delivered. After the last
        attempt, settle it with `result` instead.

        `counts` is false if the connection broke because of another email.
        """
        email.attempts += counts
        if email.attempts < MOST_ATTEMPTS:
            email.take_back()
            self._retries.append(email)
            return
        email.settle(result)
        if result.kind is ResultKind.HELD and result.scope is FaultScope.ACCOUNT:
            self.settle_all(result)

    @property
    def size(self) -> int:
        return len(self._retries) + sum(
            len(batch.recipients) - batch.taken for batch in self._batches if not batch.cancelled
        )

    def oldest(self) -> float | None:
        """Return when the first of the waiting emails arrived."""
        return min((each.arrived for each in self._waiting_batches()), default=None)

    def settle_all(self, result: Result, arrived_by: float = float("inf")) -> None:
        """Settle all waiting emails, or those of batches that arrived by then."""
        self._settle_where(result, lambda batch: batch.arrived <= arrived_by)

    def settle_mailing(self, result: Result, mailing: Mailing) -> None:
        """Settle the waiting emails of one mailing."""
        self._settle_where(result, lambda batch: batch.mailing is mailing)

    def _settle_where(self, result: Result, concerns: Callable[[SmtpBatch], bool]) -> None:
        kept: list[SmtpEmail] = []
        while (email := self.take()) is not None:
            if concerns(email.batch):
                email.settle(result)
            else:
                kept.append(email)
        self._retries.extend(kept)

    def _waiting_batches(self) -> Iterator[SmtpBatch]:
        for email in self._retries:
            if not email.batch.cancelled:
                yield email.batch
        for batch in self._batches:
            if not batch.cancelled:
                yield batch
