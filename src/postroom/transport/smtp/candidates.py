"""Servers in order of preference, and which of them may be tried now."""

from __future__ import annotations

from collections.abc import Sequence

from postroom.transport.contract import Result, ResultKind
from postroom.transport.smtp.address import SmtpServer

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
"""Seconds that a server which cannot be reached is left alone: doubled with each failure."""


class Candidate:
    """A server, the connections to it, and how it fared."""

    def __init__(self, server: SmtpServer, rank: int) -> None:
        self.server = server
        self.rank = rank
        self.open = 0
        self.opening = 0
        self.not_before = 0.0
        self.failure: Result | None = None
        self._failures = 0

    def succeeded(self) -> None:
        self._failures = 0
        self.not_before = 0.0
        self.failure = None

    def failed(self, result: Result, now: float) -> None:
        # Connections that were opened together fail together: that is one failure.
        if self.not_before <= now:
            self.not_before = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
            self._failures = min(self._failures + 1, 16)
        self.failure = result

    def room(self, limit: int) -> int:
        """How many connections may be opened now. The first one is opened alone: a server that is
        down, or does not like our password, need not hear of it many times."""
        if not self.open:
            return 0 if self.opening else 1
        return limit - self.open - self.opening


class Candidates:
    def __init__(self, servers: Sequence[SmtpServer]) -> None:
        self._all = [Candidate(server, rank) for rank, server in enumerate(servers)]

    def best(self, now: float) -> Candidate | None:
        """The first that is connected or may be tried; none while all are left alone."""
        for each in self._all:
            if each.open or each.not_before <= now:
                return each
        return None

    @property
    def next_attempt(self) -> float:
        return min(each.not_before for each in self._all)

    def verdict(self) -> Result:
        """What no server at all means. The sender is to blame only if every server says so."""
        failures = [each.failure for each in self._all if each.failure is not None]
        blamed = len(failures) == len(self._all) and all(
            each.kind is ResultKind.HELD for each in failures
        )
        kind = ResultKind.HELD if blamed else ResultKind.DEFERRED
        return Result(kind, "; ".join(each.reply for each in failures))
