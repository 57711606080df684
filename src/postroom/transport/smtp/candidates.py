"""The mail servers in order of preference, and which of them may be tried now."""

from __future__ import annotations

from collections.abc import Sequence

from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.servers import SmtpServer

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
"""Back-off in seconds for a server that cannot be used: doubled with each failure."""


class CandidateServer:
    """A server, its connections and its failures."""

    def __init__(self, server: SmtpServer, rank: int) -> None:
        self.server = server
        self.rank = rank
        self.open = 0
        self.opening = 0
        self.not_before = 0.0
        self.failure: Result | None = None
        self.is_temporary = False  # the failure may end within seconds
        self._failures = 0
        self._fails_emails = False
        self._fails_emails_until = 0.0

    def opened(self, now: float) -> None:
        """Record a connection. It does not end the back-off if emails failed a moment ago."""
        if self._fails_emails_until <= now:
            self._failures = 0
        self.forget()

    def failed(self, result: Result, now: float, *, is_temporary: bool) -> None:
        # Connections that were opened together fail together: count one failure.
        if self.not_before <= now:
            self.not_before = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
            self._failures = min(self._failures + 1, 16)
        self.failure = result
        self.is_temporary = is_temporary

    def failed_emails(self, result: Result, now: float) -> None:
        """Record that it accepts connections, but none of our emails."""
        self.failed(result, now, is_temporary=False)
        self._fails_emails = True
        self._fails_emails_until = now + 2 * LONGEST_PAUSE

    def may_be_used(self, now: float) -> bool:
        return self.not_before <= now or (self.open > 0 and not self._fails_emails)

    def forget(self) -> None:
        """Allow the next attempt at once."""
        self.not_before = 0.0
        self.failure = None
        self._fails_emails = False

    def room(self, limit: int) -> int:
        """Return how many connections may be opened now. The first one is opened alone: one attempt
        shows whether the server is down or rejects our password."""
        if not self.open:
            return 0 if self.opening else 1
        return limit - self.open - self.opening


class CandidateServers:
    def __init__(self, servers: Sequence[SmtpServer]) -> None:
        self._all = [CandidateServer(server, rank) for rank, server in enumerate(servers)]

    def best(self, now: float) -> CandidateServer | None:
        """Return the first that is connected or may be tried; None while all are backing off."""
        for each in self._all:
            if each.may_be_used(now):
                return each
        return None

    def has_another(self, candidate: CandidateServer, now: float) -> bool:
        """Return whether a server can be tried instead of this one."""
        return any(each.may_be_used(now) for each in self._all if each is not candidate)

    @property
    def next_attempt(self) -> float:
        return min(each.not_before for each in self._all)

    @property
    def is_worth_waiting(self) -> bool:
        """Whether a server may be back within seconds: not if all of them refuse us."""
        return any(each.is_temporary for each in self._all)

    def forget(self) -> None:
        for each in self._all:
            each.forget()

    def result(self) -> Result:
        """Return the result for emails when no server can be used."""
        failures = [each.failure for each in self._all if each.failure is not None]
        reasons = {each.reason for each in failures}
        return Result(
            ResultKind.HELD,
            "; ".join(each.reply for each in failures),
            FaultScope.ACCOUNT,
            reasons.pop() if len(reasons) == 1 else "None of the mail servers can be used",
        )
