"""The connections, kept open between batches and shared by all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from postroom.transport.contract import Result, ResultKind
from postroom.transport.smtp.address import SmtpServer
from postroom.transport.smtp.candidates import Candidate, Candidates
from postroom.transport.smtp.connection import Connection
from postroom.transport.smtp.hands import CLOSES
from postroom.transport.smtp.opening import OpeningFailed, open_connection
from postroom.transport.smtp.timeouts import Timeouts
from postroom.transport.smtp.work import Batch, Work

_CLOSED = Result(ResultKind.DEFERRED, "the transport is being closed")


class Pool:
    """Opens connections as work demands, and closes those that have none for a while.

    That a server cannot be used is remembered for the emails that wait here at that moment, and no
    longer: the sender decides when to try again, and then the server is asked.
    """

    def __init__(self, servers: Sequence[SmtpServer], limit: int, timeouts: Timeouts) -> None:
        self._candidates = Candidates(servers)
        self._limit = limit
        self._timeouts = timeouts
        self._work = Work()
        self._connections: dict[Connection, Candidate] = {}
        self._idle: list[Connection] = []
        self._openings: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def size(self) -> int:
        return len(self._connections)

    def limit(self, most: int) -> None:
        """So many connections to a server from now on; those too many end when they are free."""
        if most == self._limit:
            return
        self._limit = most
        kept: Counter[Candidate] = Counter()
        for connection, candidate in list(self._connections.items()):
            if connection.is_retired:
                continue
            kept[candidate] += 1
            if kept[candidate] > most:
                self._retire(connection)
        self._stir()

    def add(self, batch: Batch) -> None:
        if not self._connections and not self._openings and not self._work.waiting:
            self._candidates.forget()
        self._work.add(batch)
        self._stir()

    def give_up(self, batch: Batch) -> None:
        """Stop waiting for replies to emails of this batch."""
        for each in list(self._connections):
            if each.dialogue is not None and each.dialogue.has_sent(batch):
                each.give_up("cancelled", retry=True)

    async def close(self) -> None:
        """Defer what waits, wait a little for what is on the wire, say good-bye."""
        self._is_closed = True
        for timer in (self._ticking, self._retry):
            if timer is not None:
                timer.cancel()
        for task in self._openings:
            task.cancel()
        if self._openings:
            await asyncio.wait(self._openings)
        self._stir()
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

    def resting(self, connection: Connection) -> None:
        if connection.is_retired:
            connection.leave(self._timeouts.quit)
        else:
            self._idle.append(connection)

    def gone(self, connection: Connection) -> None:
        candidate = self._connections.pop(connection, None)
        if candidate is None:
            return  # it never worked
        candidate.open -= 1
        if connection in self._idle:
            self._idle.remove(connection)
        self._stir()

    def fails(self, connection: Connection, result: Result) -> bool:
        """A server takes none of our emails. Return whether another one is tried instead."""
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

    def _stir(self) -> None:
        """Give what waits to connections that rest, and open more when they do not suffice."""
        if self._is_closed:
            self._work.settle_all(_CLOSED)
            return
        while self._idle and self._work.waiting:
            self._idle.pop().wake()
        if self._work.waiting:
            self._grow()

    def _grow(self) -> None:
        now = asyncio.get_running_loop().time()
        best = self._candidates.best(now)
        if best is None:
            self._wait_for_a_server(now)
            return
        if best.not_before > now:
            return  # the connections that it has must do
        wanted = self._work.waiting - best.opening
        for _ in range(min(wanted, best.room(self._limit))):
            best.opening += 1
            task = asyncio.get_running_loop().create_task(self._open(best))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)

    async def _open(self, candidate: Candidate) -> None:
        try:
            connection = await open_connection(candidate.server, self._timeouts, self)
        except OpeningFailed as exc:
            self._not_opened(candidate, exc)
        except Exception as exc:  # whatever it is: nobody may wait for ever
            problem = f"{candidate.server}: {type(exc).__name__} {exc}"
            self._not_opened(candidate, OpeningFailed(problem, "The mail server cannot be used"))
        else:
            if connection.closed.done():  # in the same moment: it will not say so again
                problem = f"{candidate.server} closed the connection at once"
                self._not_opened(candidate, OpeningFailed(problem, CLOSES))
            elif candidate.may_be_used(asyncio.get_running_loop().time()):
                self._opened(connection, candidate)
            else:  # it has refused emails on another connection meanwhile
                connection.leave(self._timeouts.quit)
        finally:
            candidate.opening -= 1
        self._stir()

    def _not_opened(self, candidate: Candidate, failure: OpeningFailed) -> None:
        now = asyncio.get_running_loop().time()
        candidate.failed(failure.result, now, is_passing=failure.is_passing)

    def _opened(self, connection: Connection, candidate: Candidate) -> None:
        candidate.opened(asyncio.get_running_loop().time())
        candidate.open += 1
        self._connections[connection] = candidate
        connection.serve(self._work)
        self._idle.append(connection)
        for other, theirs in list(self._connections.items()):
            if theirs.rank > candidate.rank:
                self._retire(other)
        if self._ticking is None:
            self._tick()

    def _retire(self, connection: Connection) -> None:
        """No new work for it: a server that we like better is back, or there are too many."""
        connection.retire()
        if connection in self._idle:
            self._idle.remove(connection)
            connection.leave(self._timeouts.quit)

    def _wait_for_a_server(self, now: float) -> None:
        """No server can be used: emails wait a little if one may be back soon."""
        patience = self._timeouts.patience
        until = now - patience if self._candidates.is_worth_waiting else float("inf")
        self._work.settle_all(self._candidates.verdict(), until)
        oldest = self._work.oldest()
        if oldest is None:
            return
        moment = min(self._candidates.next_attempt, oldest + patience)
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_at(max(moment, now + 0.001), self._stir)

    # — Watching the clock —

    def _tick(self) -> None:
        """Look now and then, instead of a timer for each email."""
        self._ticking = None
        if not self._connections or self._is_closed:
            return
        loop = asyncio.get_running_loop()
        for each in list(self._connections):
            self._look_at(each, loop.time() - each.moved_at)
        self._ticking = loop.call_later(self._timeouts.tick, self._tick)
        if self._work.waiting:
            self._stir()  # a server that was left alone may be tried again

    def _look_at(self, connection: Connection, waited: float) -> None:
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
