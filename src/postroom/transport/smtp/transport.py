"""SMTP as a transport."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from postroom.domain.errors import Invalid
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.contract import (
    Result,
    ResultKind,
    Scope,
    Transport,
    TransportError,
    Watcher,
)
from postroom.transport.smtp.address import SmtpServer
from postroom.transport.smtp.checking import check_server
from postroom.transport.smtp.pool import Pool
from postroom.transport.smtp.timeouts import Timeouts
from postroom.transport.smtp.work import Batch
from postroom.transport.waiting import wait_although_cancelled


class SmtpTransport(Transport):
    """Servers in order of preference, with up to `connections` to the one that is used."""

    def __init__(
        self,
        servers: Sequence[SmtpServer],
        *,
        connections: int = 8,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._servers = tuple(servers)
        self._timeouts = timeouts or Timeouts()
        self._connections = connections
        self._pool = Pool(self._servers, connections, self._timeouts)

    def __repr__(self) -> str:
        return f"SmtpTransport({', '.join(map(str, self._servers))})"

    @property
    def at_once(self) -> int:
        return self._connections

    @property
    def open_connections(self) -> int:
        return self._pool.size

    async def send(
        self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher
    ) -> list[Result]:
        if not recipients:
            return []
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def finished() -> None:
            if not done.done():
                done.set_result(None)

        try:
            batch = Batch(mailing, recipients, watcher, finished, loop.time())
        except Invalid as exc:
            return _all_held(len(recipients), f"the sender's address: {exc}", watcher)
        self._pool.add(batch)
        try:
            await asyncio.wait((done,))
        except asyncio.CancelledError:
            batch.cancel()
            await wait_although_cancelled(done, self._timeouts.cancelled)
            self._pool.give_up(batch)
            raise
        return batch.results

    def limit_connections(self, most: int) -> None:
        self._pool.limit(most)

    async def check(self) -> str:
        """Each server is tried; one that works is enough, and what is wrong with the others is
        said, too."""
        lines, works = [], False
        for server in self._servers:
            try:
                lines.append(await check_server(server, self._timeouts))
                works = True
            except TransportError as exc:
                lines.append(str(exc))
        if not works:
            raise TransportError("; ".join(lines))
        return "; ".join(lines)

    async def close(self) -> None:
        await self._pool.close()


def _all_held(count: int, problem: str, watcher: Watcher) -> list[Result]:
    result = Result(ResultKind.HELD, problem, Scope.MESSAGE, "The From address is not valid")
    results = [result] * count
    for position, result in enumerate(results):
        watcher.settled(position, result)
    return results
