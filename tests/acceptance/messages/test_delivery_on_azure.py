"""Delivery on Azure Storage (Azurite), with few emails because the emulator is slow."""

import asyncio

import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.wiring import Services
from tests.acceptance.harness import (
    CONNECTIONS,
    Postroom,
    SumChecker,
    address_of,
    addresses_with,
    fill,
    schedule,
)
from tests.long import sized
from tests.services.mail.recording_smtp import RecordingSmtp

COUNT = sized(300, 5_000)
KILLS = sized(2, 20)


@pytest.fixture
def engine() -> str:
    return "azure"


@pytest.mark.timeout(300)
async def test_killed_schedulers_and_senders_miss_no_recipient(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    postroom.settings |= {"sender_lease": "30s", "scheduler_lease": "15s"}
    await fill(services, COUNT)
    message = await schedule(services)
    checker = SumChecker(services, message)
    scheduler = postroom.start("scheduler")
    await checker.until(lambda _, counts: counts.planned > 0, seconds=60, why="nothing is planned")
    scheduler.kill()
    scheduler.wait()
    postroom.start("scheduler")
    sender = postroom.start("sender")
    for kill in range(1, KILLS + 1):
        share = kill * COUNT // (KILLS + 2)
        await checker.until(
            lambda _, counts, share=share: counts.done >= share,  # type: ignore[misc]
            seconds=90,
            why=f"no progress before kill {kill}",
        )
        sender.kill()
        sender.wait()
        sender = postroom.start("sender")

    _, counts = await checker.until_done(150)

    copies = server.copies()
    assert set(copies) == {address_of(number) for number in range(COUNT)}, "somebody was forgotten"
    assert counts.accepted == counts.planned == COUNT
    twice = {address for address, times in copies.items() if times > 1}
    listed = {
        record.address async for record in services.outcomes.emails(message) if record.was_in_doubt
    }
    assert twice <= listed, "somebody got it twice in silence"
    assert len(listed) <= KILLS * CONNECTIONS


@pytest.mark.timeout(180)
async def test_sigterm_during_sending_loses_and_duplicates_nothing(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, COUNT)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    sender = postroom.start("sender")
    await checker.until(lambda _, counts: counts.done >= 100, seconds=90, why="no progress")

    assert await asyncio.to_thread(postroom.stop, sender, 60) == 0

    postroom.start("sender")
    _, counts = await checker.until_done(90)
    copies = server.copies()
    assert set(copies) == {address_of(number) for number in range(COUNT)}
    assert set(copies.values()) == {1}
    assert counts.accepted == COUNT
    assert await addresses_with(services, message, EmailOutcome.IN_DOUBT) == set()
