"""The simulated mail server, and the transport by which senders reach it.

The server remembers every copy that it accepted. What a sender has handed over is on the wire: it
may arrive although the sender dies before the reply, and the reply may get lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.mail.mailing import Mailing, Recipient
from postroom.transport.batch import BatchEmail, EmailBatch
from postroom.transport.contract import (
    ConnectionQuota,
    FaultScope,
    Result,
    ResultKind,
    Transport,
    Watcher,
)
from tests.simulation.loop import Process, SimulationLoop, current_process

ACCEPTED = Result(ResultKind.ACCEPTED, "250 2.0.0 OK")
LOST = Result(ResultKind.IN_DOUBT, "the connection was lost after the end of the data")
UNKNOWN_USER = Result(ResultKind.REFUSED, "550 5.1.1 no such user", reason="There is no mailbox")
REJECTED = Result(ResultKind.REFUSED, "550 rejected by policy")
GREYLISTED = Result(ResultKind.DEFERRED, "451 4.7.1 greylisted", reason="Try again later")
HELD = {
    scope: Result(ResultKind.HELD, f"421 4.7.0 {scope}", scope, f"A fault of the {scope}")
    for scope in (FaultScope.ACCOUNT, FaultScope.PROVIDER, FaultScope.MESSAGE)
}
_GRACE_SECONDS = 3.0


class Delivery(msgspec.Struct):
    """What the server knows about one email: a message to an address."""

    copies: int = 0
    """Accepted copies: more than one are duplicates."""
    subjects: set[str] = msgspec.field(default_factory=set)
    refusals: int = 0
    handed_over: list[float] = msgspec.field(default_factory=list)
    """When senders have handed it over."""


class MailServer:
    """Its replies follow from the seed, until `is_healthy`."""

    def __init__(self, loop: SimulationLoop, choices: Random, process: Process) -> None:
        self._loop = loop
        self._choices = choices
        self.process = process
        self.is_healthy = False
        self.fault_rate = choices.choice((0.0, 0.1, 0.3))
        self.lost_rate = choices.choice((0.0, 0.05, 0.3))
        self.outage: Result | None = None
        """The reply to everything."""
        self.unknown_users: set[Address] = set()
        self.emails: dict[Address, Delivery] = {}
        self.told: Callable[[str], None] = lambda text: None
        self.handed_over: Callable[[Address], None] = lambda address: None

    def email(self, address: Address) -> Delivery:
        return self.emails.setdefault(address, Delivery())

    def reply_before(self) -> Result | None:
        """Return a reply that comes before an email is handed over."""
        if self.is_healthy:
            return None
        if self.outage is not None and self.outage.kind is ResultKind.HELD:
            return self.outage
        if self._choices.random() < self.fault_rate / 4:
            return Result(ResultKind.DEFERRED, "the connection was lost after RCPT")
        return None

    def receive(self, subject: str, address: Address) -> Result:
        """Take an email, or not."""
        email = self.email(address)
        result = self._judge(address)
        if result.kind is ResultKind.ACCEPTED:
            email.copies += 1
            email.subjects.add(subject)
        elif result.kind is ResultKind.REFUSED:
            email.refusals += 1
        self.told(f"mail server: {address}: {result.reply}")
        return result

    def _judge(self, address: Address) -> Result:
        if address in self.unknown_users:
            return UNKNOWN_USER
        if self.is_healthy:
            return ACCEPTED
        if self.outage is not None:
            return self.outage
        if self._choices.random() < self.fault_rate:
            return self._choices.choice((GREYLISTED, GREYLISTED, REJECTED, *HELD.values()))
        return ACCEPTED

    def loses_reply(self) -> bool:
        return not self.is_healthy and self._choices.random() < self.lost_rate

    def latency(self) -> float:
        return self._choices.choice((0.001, 0.01, 0.05, 0.1, 0.4))


class SimulatedTransport(Transport):
    """The connections of one sender."""

    def __init__(self, server: MailServer, loop: SimulationLoop, connections: int) -> None:
        self._server = server
        self._loop = loop
        self._connections = connections
        self._connected: list[asyncio.Task[None]] = []

    @property
    def concurrency(self) -> int:
        return self._connections

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        batch = EmailBatch(mailing, recipients, watcher)
        waiting = [BatchEmail(batch, position) for position in range(len(recipients))]
        emails = list(waiting)
        waiting.reverse()
        for _ in range(min(self._connections, len(emails))):
            self._connected.append(asyncio.create_task(self._deliver_all(waiting)))

        def give_up() -> None:
            for email in emails:
                if email.is_handed_over:
                    email.settle(LOST)

        return await batch.wait(_GRACE_SECONDS, give_up)

    async def _deliver_all(self, waiting: list[BatchEmail]) -> None:
        """Deliver emails one after the other, as a connection does."""
        while waiting:
            email = waiting.pop()
            await self._wait(self._server.latency())
            if email.batch.cancelled:
                return
            before = self._server.reply_before()
            if before is not None:
                email.settle(before)
            else:
                await self._deliver(email)

    async def _deliver(self, email: BatchEmail) -> None:
        subject, address = email.batch.mailing.subject, email.recipient.address
        server, sender = self._server, current_process()
        server.email(address).handed_over.append(self._loop.time())
        server.told(f"{sender}: hands over {address}")
        server.handed_over(address)
        email.hand_over()
        reply: asyncio.Future[Result | None] = self._loop.create_future()

        def arrive() -> None:
            result = server.receive(subject, address)
            lost = server.loses_reply()
            if sender.is_alive:
                reply.set_result(None if lost else result)

        # From here on it is on the wire, whatever happens to the sender.
        self._loop.call_for(server.process, server.latency(), arrive)
        result = await reply
        await self._wait(server.latency())
        email.settle(LOST if result is None else result)

    async def _wait(self, seconds: float) -> None:
        await self._loop.delay(seconds)

    async def check(self) -> str:
        return "simulated"

    async def close(self) -> None:
        return
