"""kill -9, again and again: nobody is forgotten, and nobody gets it twice in silence."""

import asyncio
import random
import time

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Overtaken
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.refs import MessageRef
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
from tests.long import IS_LONG, sized
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.waiting import BUSY

KILLS = sized(20, 100)
CASES = [("sqlite", "resend"), ("postgres", "hold")]
if IS_LONG:
    CASES += [("sqlite", "hold"), ("postgres", "resend")]


@pytest.mark.timeout(sized(180, 1800))
async def test_a_scheduler_that_is_killed_20_times_makes_every_page_once(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = sized(5_000, 50_000)
    await fill(services, count)
    messages = [await schedule(services)]
    for _ in range(KILLS):
        scheduler = postroom.start("scheduler")
        if not await begins(services, messages[-1].ref):
            # It was planned before the scheduler could be killed: there has to be another message.
            messages.append(await schedule(services))
            await begins(services, messages[-1].ref)
        # Fan-out takes a few dozen milliseconds in all: each life makes a little of it.
        await asyncio.sleep(random.uniform(0.0, 0.02))
        scheduler.kill()
        scheduler.wait()
    postroom.start("scheduler")
    postroom.start("sender")

    for message in messages:
        _, counts = await SumChecker(services, message).until_done(90)
        assert counts.as_dict()["planned"] == counts.accepted == count
    copies = server.copies()
    assert set(copies) == {address_of(number) for number in range(count)}
    assert set(copies.values()) == {len(messages)}


async def begins(services: Services, ref: MessageRef) -> bool:
    """Wait until a scheduler works on the message; return False if all of it is planned already."""
    was_new = (await services.messages.get(ref)).status is MessageStatus.PENDING
    deadline = time.monotonic() + 60 * BUSY
    while time.monotonic() < deadline:
        message = await services.messages.get(ref)
        if message.status is MessageStatus.PROCESSING:
            return was_new
        if message.status is MessageStatus.QUEUING:
            return True
        await asyncio.sleep(0.005)
    raise AssertionError("no scheduler begins")


async def decide(services: Services, ref: MessageRef, address: Address, *, was_sent: bool) -> None:
    """Decide as an administrator, and again a little later while a sender works on the page."""
    for _ in range(600 * BUSY):
        message = await services.messages.get(ref)
        try:
            await services.in_doubt.decide(message, address, was_sent=was_sent)
        except Overtaken:
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError(f"the page of {address} is never free")


@pytest.mark.timeout(sized(240, 1800))
@pytest.mark.parametrize(("engine", "in_doubt"), CASES, indirect=["engine"])
async def test_senders_that_are_killed_20_times_miss_no_recipient(
    postroom: Postroom, services: Services, server: RecordingSmtp, in_doubt: str
) -> None:
    count = sized(8_000, 200_000)
    postroom.settings["in_doubt"] = in_doubt
    # Who is killed between taking an item and noting it down keeps it until its lease runs out.
    postroom.settings["sender_lease"] = "10s"
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    senders = [postroom.start("sender") for _ in range(2)]
    for kill in range(1, KILLS + 1):
        share = kill * count // (KILLS + 2)
        await checker.until(
            lambda _, counts, share=share: counts.done >= share,  # type: ignore[misc]
            seconds=60,
            why=f"no progress before kill {kill}",
        )
        victim = senders.pop(random.randrange(len(senders)))
        victim.kill()
        victim.wait()
        senders.append(postroom.start("sender"))

    if in_doubt == "hold":
        _, counts = await checker.until(
            lambda _, counts: counts.planned == count and counts.pending == 0,
            seconds=90,
            why="emails are left",
        )
        held = await addresses_with(services, message, EmailOutcome.IN_DOUBT)
        assert len(held) == counts.in_doubt <= KILLS * CONNECTIONS
        got = server.copies()
        for address in held:
            await decide(services, message.ref, address, was_sent=got[address] > 0)
    _, counts = await checker.until_done(90)

    copies = server.copies()
    assert set(copies) == {address_of(number) for number in range(count)}, "somebody was forgotten"
    assert counts.accepted == counts.planned == count
    twice = {address for address, times in copies.items() if times > 1}
    listed = {
        record.address async for record in services.outcomes.emails(message) if record.was_in_doubt
    }
    assert twice <= listed, "somebody got it twice in silence"
    assert len(listed) <= KILLS * CONNECTIONS
    if in_doubt == "hold":
        assert twice == set()
    else:
        assert counts.possible_duplicates == len(listed)
    assert checker.looks > KILLS
