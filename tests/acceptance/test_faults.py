"""Faults that are not a recipient's: outages heal by themselves, one bad domain stops nobody, and
an account's fault never costs the list. Real processes, and a mail server whose faults change."""

import asyncio
import time
from collections.abc import Callable

import pytest

from postroom.domain.addresses import Address
from postroom.domain.lists import ListName
from postroom.domain.messages import MessageStatus
from postroom.services import records
from postroom.services.subscriptions import new_subscriber
from postroom.storage import Insert
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, SumChecker, fill, schedule
from tests.services.recording_smtp import RecordingSmtp, Rule

pytestmark = [pytest.mark.timeout(150)]


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """Holds need nothing of a store that the contract's own tests do not show for all three."""
    return str(request.param)


async def until(is_so: Callable[[], bool], *, seconds: float, why: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, why
        await asyncio.sleep(0.05)


async def add(services: Services, *addresses: str) -> None:
    table = services.store.table(records.LISTS)
    for address in addresses:
        new = new_subscriber(ListName(LIST), Address(address), verified=True)
        await table.apply(
            [Insert(records.subscriber_entity(new)), Insert(records.lookup_entity(new))]
        )


def touched(server: RecordingSmtp) -> set[str]:
    """The recipients whom a fault has met."""
    return {fault.subject for fault in server.faults() if fault.stage in ("RCPT", "DATA", "end")}


ACCOUNT_FAULTS = {
    "quota": Rule("RCPT", reply="550 5.4.5 Daily sending quota exceeded. For more, see x"),
    "sender": Rule("MAIL", reply="553 5.7.1 Sender address rejected: not owned by user"),
    "relay": Rule("RCPT", reply="554 5.7.1 <someone@example.com>: Relay access denied"),
    "unknown": Rule("RCPT", reply="550 5.5.0 Ask the wizard on level 7 about you"),
}


@pytest.mark.parametrize("fault", ACCOUNT_FAULTS)
async def test_an_account_fault_costs_nobody_and_heals_by_itself(
    postroom: Postroom, services: Services, server: RecordingSmtp, fault: str
) -> None:
    await fill(services, 400)
    server.script(ACCOUNT_FAULTS[fault])
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    sums = SumChecker(services, message)
    await sums.until(lambda _, counts: counts.deferred > 300, seconds=30, why="no hold")
    [hold] = (await services.holds.open_holds()).by_key.values()
    assert (hold.scope, hold.key) == ("account", "account")
    server.script()
    done, counts = await sums.until_done(30)
    assert done.status is MessageStatus.COMPLETED
    assert (counts.accepted, counts.refused) == (400, 0)
    assert len(touched(server)) <= 50
    assert set(server.copies().values()) == {1}
    assert not await services.holds.open_holds()
