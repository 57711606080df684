"""A sender that is suspended for longer than its lease, and then goes on as if nothing had been."""

import asyncio
import random
import signal

import pytest

from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, address_of, fill, schedule
from tests.services.recording_smtp import RecordingSmtp


# On SQLite, who is suspended may hold the lock on the file, and then everybody waits for it.
@pytest.mark.timeout(180)
@pytest.mark.parametrize("engine", ["postgres"])
async def test_nobody_gets_it_twice_in_silence_from_a_sender_that_was_suspended(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    """And who took its pages over is killed at about the moment when it comes back."""
    count = 4_000
    postroom.settings["sender_lease"] = "5s"
    await fill(services, count)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    suspended = postroom.start("sender")
    await checker.until(lambda _, counts: counts.done >= 500, seconds=60, why="no progress")
    suspended.send_signal(signal.SIGSTOP)
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
