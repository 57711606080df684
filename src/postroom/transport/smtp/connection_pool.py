"""The connections to mail servers, kept open between batches and shared by all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from postroom.transport.batch import CLOSED
from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.transport.smtp.backlog import Backlog, SmtpBatch
from postroom.transport.smtp.handshake import HandshakeFailed, open_connection
from postroom.transport.smtp.in_progress import CLOSES
from postroom.transport.smtp.servers import SmtpServer, Timeouts
from postroom.transport.smtp.smtp_connection import SmtpConnection

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
        """Allow the next attempt immediately."""
        self.not_before = 0.0
        self.failure = None
        self._fails_emails = False

    def room(self, limit: int) -> int:
        """Return how many connections may be opened now. The first one is opened alone: one attempt
        shows whether the server is down or rejects our password."""
        if not self.open:
            return 0 if self.opening else 1
        return self.most(limit) - self.open - self.opening

    def most(self, limit: int) -> int:
        """Return how many connections there may be: the server may have a lower limit."""
        return min(limit, self.server.connections or limit)


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
        """Return whether another server is available."""
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


class ConnectionPool:
    """Opens connections as the backlog demands, and closes those that stay unused for a while.

    A server's failure counts only for the emails that wait here at that moment: the sender decides
    when to try again, and then the server is asked.
    """

    def __init__(self, servers: Sequence[SmtpServer], limit: int, timeouts: Timeouts) -> None:
        self._candidates = CandidateServers(servers)
        self._limit = limit
        self._timeouts = timeouts
        self._backlog = Backlog()
        self._backlog.brake.on_release = self._assign
        self._connections: dict[SmtpConnection, CandidateServer] = {}
        self._idle: list[SmtpConnection] = []
        self._openings: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def size(self) -> int:
        return len(self._connections)

    def limit(self, most: int) -> None:
        """Keep at most this many connections to a server; excess ones close when free."""
        if most == self._limit:
            return
        self._limit = most
        kept: Counter[CandidateServer] = Counter()
        for connection, candidate in list(self._connections.items()):
            if connection.is_retired:
                continue
            kept[candidate] += 1
            if kept[candidate] > candidate.most(most):
                self._retire(connection)
        self._assign()

    def add(self, batch: SmtpBatch) -> None:
        if not self._connections and not self._openings and not self._backlog.size:
            self._candidates.forget()
        if batch.quota is not None and not self._backlog.has_quotas:
            for each in self._connections:
                each.count_emails()
        self._backlog.add(batch)
        self._assign()

    def give_up(self, batch: SmtpBatch) -> None:
        """Stop waiting for replies to emails of this batch."""
        for each in list(self._connections):
            if each.dialogue is not None and each.dialogue.has_sent(batch):
                each.give_up("cancelled", retry=True)

    async def close(self) -> None:
        """Defer the backlog, wait a little for the emails in progress, send QUIT."""
        self._is_closed = True
        for timer in (self._ticking, self._retry):
            if timer is not None:
                timer.cancel()
        for task in self._openings:
            task.cancel()
        if self._openings:
            await asyncio.wait(self._openings)
        self._assign()
        await self._drained()
        for each in list(self._connections):
            each.leave(self._timeouts.quit)
        left = [each.closed for each in self._connections]
        if left:
            await asyncio.wait(left, timeout=self._timeouts.quit * 2)

    async def _drained(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._timeouts.cancelled
        while busy := [each for each in self._connections if each not in self._idle]:
            if asyncio.get_running_loop().time() > deadline:
                for each in busy:
                    each.give_up("closed", retry=False)
                break
            await asyncio.sleep(0.01)

    # — From connections —

    def resting(self, connection: SmtpConnection) -> None:
        if connection.is_retired:
            connection.leave(self._timeouts.quit)
        else:
            self._idle.append(connection)

    def gone(self, connection: SmtpConnection) -> None:
        candidate = self._connections.pop(connection, None)
        if candidate is None:
            return  # it was never opened completely
        candidate.open -= 1
        if connection in self._idle:
            self._idle.remove(connection)
        self._assign()

    def fails(self, connection: SmtpConnection, result: Result) -> bool:
        """Record that a server accepts none of our emails. Return whether another one is tried."""
        now = asyncio.get_running_loop().time()
        candidate = self._connections.get(connection)
        if candidate is None or not self._candidates.has_another(candidate, now):
            return False
        candidate.failed_emails(result, now)
        for other, theirs in list(self._connections.items()):
            if theirs is candidate and other is not connection:
                self._retire(other)
        return True

    # — Growing —

    def _assign(self) -> None:
        """Give the backlog to idle connections, and open more if they do not suffice."""
        if self._is_closed:
            self._backlog.settle_all(CLOSED)
            return
        brake = self._backlog.brake
        while self._idle and self._backlog.size and not brake.stops():
            self._idle.pop().wake()
        if self._backlog.size and not brake.stops():
            self._grow()

    def _grow(self) -> None:
        now = asyncio.get_running_loop().time()
        best = self._candidates.best(now)
        if best is None:
            self._wait_for_a_server(now)
            return
        if best.not_before > now:
            return  # its open connections must suffice
        wanted = self._backlog.size - best.opening
        for _ in range(min(wanted, best.room(self._limit))):
            best.opening += 1
            task = asyncio.get_running_loop().create_task(self._open(best))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)

    async def _open(self, candidate: CandidateServer) -> None:
        try:
            connection = await open_connection(candidate.server, self._timeouts, self)
        except HandshakeFailed as exc:
            self._not_opened(candidate, exc)
        except Exception as exc:  # emails must never wait forever
            problem = f"{candidate.server}: {type(exc).__name__} {exc}"
            self._not_opened(candidate, HandshakeFailed(problem, "The mail server cannot be used"))
        else:
            if connection.closed.done():  # already, so `gone` will not be called
                problem = f"{candidate.server} closed the connection immediately"
                self._not_opened(candidate, HandshakeFailed(problem, CLOSES))
            elif candidate.may_be_used(asyncio.get_running_loop().time()):
                self._opened(connection, candidate)
            else:  # another connection was refused emails in the meantime
                connection.leave(self._timeouts.quit)
        finally:
            candidate.opening -= 1
        self._assign()

    def _not_opened(self, candidate: CandidateServer, failure: HandshakeFailed) -> None:
        now = asyncio.get_running_loop().time()
        candidate.failed(failure.result, now, is_temporary=failure.is_temporary)

    def _opened(self, connection: SmtpConnection, candidate: CandidateServer) -> None:
        candidate.opened(asyncio.get_running_loop().time())
        candidate.open += 1
        self._connections[connection] = candidate
        connection.serve(self._backlog)
        self._idle.append(connection)
        for other, theirs in list(self._connections.items()):
            if theirs.rank > candidate.rank:
                self._retire(other)
        if self._ticking is None:
            self._tick()

    def _retire(self, connection: SmtpConnection) -> None:
        """Give it no more emails: a preferred server is back, or there are too many connections."""
        connection.retire()
        if connection in self._idle:
            self._idle.remove(connection)
            connection.leave(self._timeouts.quit)

    def _wait_for_a_server(self, now: float) -> None:
        """Hold the backlog: immediately, or after a while if a server may be back soon."""
        patience = self._timeouts.patience
        until = now - patience if self._candidates.is_worth_waiting else float("inf")
        self._backlog.settle_all(self._candidates.result(), until)
        oldest = self._backlog.oldest()
        if oldest is None:
            return
        moment = min(self._candidates.next_attempt, oldest + patience)
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_at(max(moment, now + 0.001), self._assign)

    # — Timeouts —

    def _tick(self) -> None:
        """Check timeouts regularly, instead of a timer for each email."""
        self._ticking = None
        if not self._connections or self._is_closed:
            return
        loop = asyncio.get_running_loop()
        for each in list(self._connections):
            self._check_timeout(each, loop.time() - each.moved_at)
        self._ticking = loop.call_later(self._timeouts.tick, self._tick)
        if self._backlog.size:
            self._assign()  # a server's back-off may be over

    def _check_timeout(self, connection: SmtpConnection, waited: float) -> None:
        dialogue = connection.dialogue
        if dialogue is None:
            return
        stage = dialogue.awaits
        if stage is None:
            if waited > self._timeouts.idle and connection in self._idle:
                self._idle.remove(connection)
                connection.leave(self._timeouts.quit)
            return
        limit = self._timeouts.block if dialogue.is_writing else self._timeouts.for_stage(stage)
        if waited > limit:
            connection.give_up(f"no answer within {limit:g} s,", retry=False)
