"""Emails per second: shared between senders, kept across restarts, by domain. Real processes."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.storage import Insert
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, SumChecker, fill, schedule
from tests.contract.conftest import ON_ONE_ENGINE
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.waiting import until

# Seconds for what a span may have beside its share and the burst of one second: chunks of a quarter
# of a second, and emails that arrive late, all at once, because the machine was busy.
SLACK = 3.0


def check_rate(times: Sequence[float], rate: float) -> None:
    """No span of time has more than its share and one second's worth."""
    for first, start in enumerate(times):
        for last in range(first, len(times)):
            most = rate * (times[last] - start + 1 + SLACK) + 1
            assert last - first + 1 <= most, f"{last - first + 1} in {times[last] - start:.2f} s"


def times_of(server: RecordingSmtp, domain: str = "") -> list[float]:
    return sorted(mail.at for mail in server.accepted() if mail.recipients[0].endswith(domain))


async def fill_with(services: Services, addresses: Sequence[str]) -> None:
    await fill(services, 0)
    table = services.store.table(entities.LISTS)
    for start in range(0, len(addresses), 50):
        new = [
            new_subscriber(ListName(LIST), Address(address), verified=True)
            for address in addresses[start : start + 50]
        ]
        rows = [(entities.subscriber_entity(each), entities.lookup_entity(each)) for each in new]
        await table.apply([Insert(row) for pair in rows for row in pair])


async def until_processing(checker: SumChecker) -> None:
    await checker.until(
        lambda message, _: message.status is MessageStatus.PROCESSING, seconds=30, why="not queued"
    )


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.timeout(60)
async def test_two_senders_keep_one_limit_together_also_when_one_is_replaced(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    rate, count = 60, 600
    postroom.settings["rate"] = str(rate)
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    await until_processing(checker)
    first, second = postroom.start("sender"), postroom.start("sender")
    await checker.until(lambda _, counts: counts.done >= 200, seconds=20, why="no progress")
    assert await asyncio.to_thread(postroom.stop, first) == 0
    second.kill()
    await asyncio.to_thread(second.wait)
    for _ in range(2):
        postroom.start("sender")
    _, counts = await checker.until_done(40)

    assert counts.accepted == counts.planned == count
    times = times_of(server)
    check_rate(times, rate)
    # The restarts cost some time; what is left must use the limit.
    assert len(times) / (times[-1] - times[0]) > rate * 0.2


@ON_ONE_ENGINE
@pytest.mark.timeout(60)
async def test_a_low_limit_sends_steadily_and_stops_soon(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    postroom.settings["rate"] = "8"
    await fill(services, 200)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    await until_processing(checker)
    sender = postroom.start("sender")
    await until_received(server, 24)
    await services.message_states.pause(message.ref)
    paused_at = await until_quiet(server)
    await services.message_states.resume(message.ref)
    await until_received(server, paused_at + 16)
    started = time.monotonic()
    assert await asyncio.to_thread(postroom.stop, sender) == 0
    assert time.monotonic() - started < 20
    counts = (await checker.look())[1]
    times = times_of(server)
    check_rate(times, 8)
    assert counts.accepted == len(times)
    assert counts.possible_duplicates == counts.in_doubt == 0
    assert set(server.copies().values()) == {1}


async def until_received(server: RecordingSmtp, count: int, seconds: float = 60) -> None:
    await until(
        lambda: len(server.accepted()) >= count,
        lambda: f"{len(server.accepted())} of {count} are received",
        seconds,
    )


async def until_quiet(server: RecordingSmtp) -> int:
    """Until nothing comes for as long as a dozen would take; answers how many there are."""
    for _ in range(20):
        before = len(server.accepted())
        await asyncio.sleep(1.5)
        if len(server.accepted()) == before:
            return before
    raise AssertionError("it goes on")


@ON_ONE_ENGINE
@pytest.mark.timeout(90)
async def test_a_limit_on_a_domain_holds_and_the_others_flow_freely(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    rate, slow, free = 20, 120, 1200
    postroom.settings["rate_per_domain"] = f"slow.example={rate}"
    # In address order every tenth is slow, so that each page has some of both.
    addresses = [
        f"user{number:06}@{'slow' if number % 11 == 0 else 'quick'}.example"
        for number in range(slow + free)
    ]
    await fill_with(services, addresses)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    await until_processing(checker)
    for _ in range(2):
        postroom.start("sender")
    done, counts = await checker.until_done(60)

    assert counts.accepted == counts.planned == slow + free
    assert set(server.copies().values()) == {1}
    held, quick = times_of(server, "slow.example"), times_of(server, "quick.example")
    assert (len(held), len(quick)) == (slow, free)
    check_rate(held, rate)
    assert held[-1] - held[0] >= (slow - rate) / rate * 0.6
    assert len(held) / (held[-1] - held[0]) > rate * 0.2
    assert quick[-1] < held[-1], "the others were held up"
    await check_tries(services, done)


async def check_tries(services: Services, message: Message) -> None:
    """Waiting is no attempt."""
    tries = {record.tries async for record in services.outcomes.emails(message)}
    assert tries == {1}


@ON_ONE_ENGINE
@pytest.mark.timeout(60)
async def test_a_confirmation_does_not_wait_behind_a_whole_message(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    postroom.settings["rate"] = "10"
    await fill(services, 600)  # a minute's worth
    message = await schedule(services)
    postroom.start("scheduler")
    await until_processing(SumChecker(services, message))
    postroom.start("sender")
    await until_received(server, 15)
    await services.subscriptions.subscribe(LIST, "anna@example.org")
    started = time.monotonic()
    while "anna@example.org" not in server.copies():
        assert time.monotonic() - started < 50, "no confirmation"
        await asyncio.sleep(0.05)
    check_rate(times_of(server), 10)
