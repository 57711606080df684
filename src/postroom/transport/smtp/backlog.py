"""The emails that wait for a connection, and the batches that they belong to."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol
from weakref import WeakSet

from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.wire_addresses import all_plain, envelope_address, needs_smtputf8
from postroom.transport.batch import BatchEmail, EmailBatch
from postroom.transport.contract import (
    ConnectionQuota,
    FaultScope,
    Result,
    ResultKind,
    Watcher,
)

MOST_ATTEMPTS = 3
"""How often the connection of an email may break, or a server refuse it, before it is settled."""

_SEVERAL = 3


class _Connection(Protocol):
    @property
    def is_busy(self) -> bool: ...


class Brake:
    """Slows down when a server refuses recipients for no reason that we know.

    One such refusal may be about the recipient. Several before an email is accepted may be about
    us, and then every email that is handed over affects one more recipient. So from the third on,
    only one email at a time is in progress, until the server accepts one again. Email without such
    refusals is not slowed down.

    Shared by all connections of a pool. `on_release` is called when it ends.
    """

    def __init__(self) -> None:
        self.on_release: Callable[[], None] = _do_nothing
        self.refusals = 0
        """Unexplained refusals so far; an email remembers how many there were when it was taken."""
        self.is_watching = False
        """Whether an acceptance has to be reported: there were unexplained refusals."""
        self.is_on = False
        self._proven_after = 0
        self._since_accepted = 0
        self._connections = WeakSet[_Connection]()

    def add(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def stops(self, connection: _Connection | None = None) -> bool:
        """Return whether no further email may be begun: another connection is still busy."""
        return self.is_on and any(
            each.is_busy for each in self._connections if each is not connection
        )

    def refused(self) -> None:
        """Note an unexplained refusal."""
        self.refusals += 1
        self._since_accepted += 1
        self.is_on = self._since_accepted >= _SEVERAL
        if not self.is_watching:
            self.is_watching = True
            self._proven_after = self.refusals

    def settled(self, result: Result, refusals_before: int) -> None:
        """Note a result. An email that was taken before the first of these refusals proves
        nothing: the server may have changed its mind since."""
        if result.is_unknown_refusal:
            self.refused()
        elif result.kind is ResultKind.ACCEPTED and refusals_before >= self._proven_after:
            was_on, self.is_on = self.is_on, False
            self.is_watching = False
            self._since_accepted = 0
            if was_on:
                self.on_release()


def _do_nothing() -> None:
    return


class SmtpBatch(EmailBatch):
    """The emails of one `send`, with what their envelopes have in common."""

    __slots__ = ("arrived", "emails", "envelope", "mail_command", "plain", "quota", "taken", "utf8")

    def __init__(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        arrived: float = 0.0,
        quota: ConnectionQuota | None = None,
    ) -> None:
        super().__init__(mailing, recipients, watcher)
        self.arrived = arrived
        self.quota = quota
        self.taken = 0
        self.emails = mailing.group(recipients)
        self.envelope = mailing.envelope
        sender = mailing.from_address
        self.mail_command = f"MAIL FROM:<{envelope_address(sender)}>"
        self.utf8 = mailing.needs_smtputf8 or needs_smtputf8(sender)
        self.plain = all_plain([each.address for each in recipients])


class CarriedEmails:
    """Counts the emails of a connection that may carry a limited number: `most` in all (0: no
    limit), or as many to a provider as the quota of a batch says.

    A connection to a relay carries emails to all providers. It is closed when it is used up for
    one of them, and so carries fewer to the others: a new connection costs less than finding out
    for each email which connection may still take it.
    """

    __slots__ = ("_by_provider", "_in_all", "_most")

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._in_all = 0
        self._by_provider = Counter[str]()

    def is_used_up_by(self, batch: SmtpBatch) -> bool:
        """Count an email of this batch; return whether it is the last one."""
        self._in_all += 1
        quota = batch.quota
        if quota is not None:
            self._by_provider[quota.provider] += 1
            if self._by_provider[quota.provider] >= quota.emails:
                return True
        return self._in_all == self._most


class SmtpEmail(BatchEmail, eq=False, gc=False):
    """One email while it is on a connection."""

    batch: SmtpBatch
    content: bytes = b""
    envelope: bytes = b""  # MAIL, RCPT and DATA: one write if pipelined
    attempts: int = 0
    refusals_before: int = 0  # as `Brake.refusals` was when it was taken


class Backlog:
    """All waiting emails of all batches, in order of arrival.

    Positions of a batch are counted, not queued: no object exists for an email before a connection
    takes it.
    """

    def __init__(self) -> None:
        self._batches: deque[SmtpBatch] = deque()
        self._retries: deque[SmtpEmail] = deque()
        self.brake = Brake()
        self.has_quotas = False
        """Whether connections count their emails: there was a batch with a quota."""

    def add(self, batch: SmtpBatch) -> None:
        self.has_quotas = self.has_quotas or batch.quota is not None
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
