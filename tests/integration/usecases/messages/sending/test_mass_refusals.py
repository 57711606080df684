"""A fault of the account touches 50 recipients at most, known or not, whenever it begins: also at
the worst moment, when all connections of as many senders as a host starts are busy."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.refs import MessageRef
from postroom.mail.mailing import Recipient
from postroom.sender.faults import faults as faults_module
from postroom.sender.faults.faults import FaultListener, Faults
from postroom.services.messages.sending.holds import ACCOUNT
from postroom.settings import load_settings
from postroom.settings.declared import TransportSettings
from postroom.storage import Store
from postroom.transport.contract import Result, ResultKind
from postroom.transport.smtp.servers import parse_servers
from postroom.transport.smtp.smtp_transport import SmtpTransport
from postroom.wiring import Services
from tests.services.mail.lockstep_smtp import UNKNOWN, LockstepSmtp, lockstep_smtp
from tests.services.mail.plain_mailing import PlainMailing, recipients

pytestmark = pytest.mark.timeout(60)

REF = MessageRef("634852858215726983")


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """Which emails are touched does not depend on the store."""
    return str(request.param)


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TransportSettings:
    monkeypatch.setattr(faults_module, "_COMPARE_SECONDS", 0.05)
    monkeypatch.setattr(faults_module, "_FRESH_SECONDS", 0.01)
    return load_settings({}, tmp_path).transport


class _Sender:
    """What a sender does with pages and faults, without pages."""

    def __init__(self, url: str, store: Store, name: str, connections: int) -> None:
        self.transport = SmtpTransport(parse_servers(url), connections=connections)
        self.touches_whom = _names(name)
        self.faults = Faults(Services(store), name, self._stop)
        self._sending: asyncio.Task[list[Result]] | None = None

    def _stop(self, _: MessageRef | None) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def run(self) -> None:
        """Send until everything is on hold."""
        while not await self.faults.is_account_held():
            page = recipients(*itertools.islice(self.touches_whom, 300))
            listener = self.faults.listener(REF, 0, lambda _: False)
            watcher = _Watcher(listener, page)
            self._sending = asyncio.create_task(self.transport.send(PlainMailing(), page, watcher))
            await asyncio.wait([self._sending])
            await self.faults.conclude({}, {})


class _Watcher:
    def __init__(self, listener: FaultListener, page: list[Recipient]) -> None:
        self._listener = listener
        self._page = page

    def handing_over(self, position: int) -> None:
        return

    def settled(self, position: int, result: Result) -> None:
        address = self._page[position].address
        if result.kind is ResultKind.ACCEPTED:
            self._listener.accepted(address)
        else:
            self._listener.failed(address, result)


def _names(sender: str) -> Iterator[str]:
    return (f"{sender}.{number}@{number % 7}.example" for number in itertools.count())


async def answer_until_all_are_busy(server: LockstepSmtp, connections: int, rounds: int) -> None:
    """Accept so many emails on each connection, and return when all wait for the next reply."""
    for _ in range(5000):
        await server.until_quiet()
        if server.accepted >= rounds * connections and server.busy == connections:
            return
        await server.answer_all()
    raise AssertionError(f"{server.busy} of {connections} connections are busy")


async def answer_until(done: asyncio.Future[list[None]], server: LockstepSmtp) -> None:
    for _ in range(5000):
        if done.done():
            return
        await server.answer_all()
    raise AssertionError(f"no hold after {len(server.touched)} refusals")


@pytest.mark.parametrize("healthy_rounds", [0, 6], ids=["from the start", "while sending"])
@pytest.mark.parametrize("stage", ["RCPT", "end"])
@pytest.mark.parametrize("senders", [1, 2, 3, 4])
async def test_at_most_50_recipients_are_affected(
    store: Store, defaults: TransportSettings, senders: int, stage: str, healthy_rounds: int
) -> None:
    touched, _ = await touched_by_a_fault(store, defaults, senders, stage, UNKNOWN, healthy_rounds)

    # The hold may begin before each connection has its reply, so there is no other lower bound.
    assert 0 < touched <= 50


@pytest.mark.parametrize("stage", ["RCPT", "end"])
async def test_a_known_fault_affects_only_emails_in_progress(
    store: Store, defaults: TransportSettings, stage: str
) -> None:
    quota = "550 5.4.5 Daily user sending limit exceeded."

    touched, busy = await touched_by_a_fault(store, defaults, 4, stage, quota, 6)

    assert touched == busy == 36


async def touched_by_a_fault(
    store: Store,
    defaults: TransportSettings,
    senders: int,
    stage: str,
    reply: str,
    healthy_rounds: int,
) -> tuple[int, int]:
    """Return how many recipients were refused until everything was on hold, and how many
    connections there were."""
    share = min(defaults.connections, (defaults.connections_in_all or 10_000) // senders)
    async with lockstep_smtp() as server:
        server.refusal = reply
        server.refuses_at = "" if healthy_rounds else stage
        all_of_them = [_Sender(server.url, store, f"s{n}", share) for n in range(senders)]
        running = asyncio.gather(*(each.run() for each in all_of_them))
        if healthy_rounds:
            await answer_until_all_are_busy(server, share * senders, healthy_rounds)
        server.refuses_at = stage
        await answer_until(running, server)
        await running
        for each in all_of_them:
            await each.transport.close()

    assert ACCOUNT in await Services(store).holds.open_holds()
    return len(server.touched), share * senders


async def test_a_few_unexplained_refusals_do_not_slow_down_other_mail() -> None:
    """The brake ends with the first email that is accepted after them."""
    page = recipients(*itertools.islice(_names("s"), 400))
    results: list[Address] = []

    class Watcher:
        def handing_over(self, position: int) -> None:
            return

        def settled(self, position: int, result: Result) -> None:
            results.append(page[position].address)

    async with lockstep_smtp() as server:
        transport = SmtpTransport(parse_servers(server.url), connections=10)
        sending = asyncio.create_task(transport.send(PlainMailing(), page, Watcher()))
        for _ in range(6):
            await server.answer_all()
        server.refuses_at = "RCPT"
        await server.answer_all()
        server.refuses_at = ""
        refused = len(server.touched)
        for _ in range(4):  # one email goes through, then all connections are busy again
            await server.answer_all()
        before = server.accepted
        await server.answer_all()
        assert server.accepted - before == 10
        for _ in range(100):
            if sending.done():
                break
            await server.answer_all()
        kinds = [each.kind for each in await sending]
        await transport.close()

    assert refused == 10
    assert kinds.count(ResultKind.REFUSED) == 10
    assert kinds.count(ResultKind.ACCEPTED) == 390
    assert len(set(results)) == len(results) == 400
