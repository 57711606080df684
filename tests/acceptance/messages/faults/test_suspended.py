"""Processes that are suspended for longer than their lease, and go on as if nothing had been."""

import asyncio
import random
import signal
import subprocess

import psycopg
import pytest

from postroom.domain.messages.messages import Message, MessageStatus
from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, address_of, fill, schedule
from tests.long import sized
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.waiting import BUSY

# On SQLite, who is suspended may hold the lock on the file, and then everybody waits for it.
pytestmark = pytest.mark.parametrize("engine", ["postgres"])
SUSPENSIONS = sized(4, 40)


@pytest.mark.timeout(180)
async def test_a_suspended_sender_causes_no_unmarked_duplicate(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    """And who took its pages over is killed at about the moment when it comes back."""
    count = 4_000
    postroom.settings["sender_lease"] = "5s"
    server.script(Rule("end", wait=0.01))  # it must be busy when it is suspended
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    suspended = postroom.start("sender")
    await checker.until(lambda _, counts: counts.done >= 500, seconds=60, why="no progress")
    suspended.send_signal(signal.SIGSTOP)
    server.script()
    other = postroom.start("sender")
    await checker.until(
        lambda _, counts: counts.possible_duplicates > 0, seconds=60, why="nobody took over"
    )
    suspended.send_signal(signal.SIGCONT)
    await asyncio.sleep(random.uniform(0.0, 0.1))
    other.kill()
    other.wait()
    postroom.start("sender")

    _, counts = await checker.until_done(90)

    copies = server.copies()
    assert set(copies) == {address_of(number) for number in range(count)}, "somebody was forgotten"
    assert counts.accepted == counts.planned == count
    marked = {
        record.address async for record in services.outcomes.emails(message) if record.was_in_doubt
    }
    twice = {address for address, times in copies.items() if times > 1}
    assert twice <= marked, "somebody got it twice in silence"
    assert counts.possible_duplicates == len(marked)
    assert await asyncio.to_thread(postroom.stop, suspended) == 0


@pytest.mark.timeout(sized(180, 900))
async def test_schedulers_that_are_suspended_in_fan_out_make_every_page_once(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    """Each goes on in the middle of a step, after the next one has taken over."""
    count = sized(10_000, 60_000)
    await fill(services, count)
    messages = [message := await schedule(services)]
    before: subprocess.Popen[bytes] | None = None
    times = 0
    while times < SUSPENSIONS:
        leader = postroom.start("scheduler")
        if not await goes_on(services, message, postroom.address.url, before):
            # All of it was planned before anybody could be suspended: there has to be another one.
            messages.append(message := await schedule(services))
            assert len(messages) <= 5 * SUSPENSIONS, "fan-out is always over before a suspension"
            assert await goes_on(services, message)
        wakes_first = random.random() < 0.5
        if before is not None and wakes_first:
            before.send_signal(signal.SIGCONT)
        await asyncio.sleep(random.uniform(0.0, 0.01))
        leader.send_signal(signal.SIGSTOP)
        times += 1
        message = await services.messages.get(message.ref)
        if before is not None:
            before.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.3)  # less than the lease: nobody leads meanwhile
            assert await asyncio.to_thread(postroom.stop, before) == 0
        before = leader
    assert before is not None
    before.send_signal(signal.SIGCONT)
    postroom.start("scheduler")
    postroom.start("sender")

    for message in messages:
        _, counts = await SumChecker(services, message).until_done(90)
        assert counts.accepted == counts.planned == count
        assert counts.possible_duplicates == 0
    assert server.copies() == {address_of(number): len(messages) for number in range(count)}


async def goes_on(
    services: Services,
    last_seen: Message,
    url: str = "",
    suspended: subprocess.Popen[bytes] | None = None,
) -> bool:
    """Wait until a scheduler does something for the message; False once it is wholly queued.

    One that is `suspended` in the middle of a transaction keeps its locks in PostgreSQL at `url`,
    and the others wait for it. So it goes on if somebody waits for a lock for ten seconds.
    """
    blocked = 0
    for turn in range(6000 * BUSY):
        message = await services.messages.get(last_seen.ref)
        if message.status is MessageStatus.PROCESSING:
            return False
        if message.etag != last_seen.etag:
            return True
        if suspended is not None and turn % 200 == 199:  # about every second
            blocked += await asyncio.to_thread(is_waiting_for_a_lock, url)
            if blocked == 10:
                suspended.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.005)
    raise AssertionError("no scheduler goes on")


def is_waiting_for_a_lock(url: str) -> bool:
    with psycopg.connect(url) as connection:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' LIMIT 1"
        return connection.execute(waiting).fetchone() is not None
