"""The machine's clock is set back and forward while emails are sent."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import ON_ONE_ENGINE, StoreAddress
from tests.services.clock import make_settable_clock
from tests.services.mail.recording_smtp import RecordingSmtp, Rule

COUNT = 3_000
HOUR = 3600


@pytest.mark.timeout(120)
@ON_ONE_ENGINE
async def test_a_clock_that_is_set_back_or_forward_by_an_hour_holds_nothing_up(
    address: StoreAddress, services: Services, server: RecordingSmtp, tmp_path: Path
) -> None:
    """Two senders; one of them is killed after the clock was set back."""
    clock = make_settable_clock(tmp_path)
    address = replace(address, environment={**address.environment, **clock.environment})
    postroom = Postroom(address, server.url, tmp_path)
    postroom.settings["sender_lease"] = "15s"
    # So slow that most pages are still in the queue when the clock is set.
    server.script(Rule("end", wait=0.02))
    try:
        await fill(services, COUNT)
        message = await schedule(services)
        checker = SumChecker(services, message)
        postroom.start("scheduler")
        killed, sender = postroom.start("sender"), postroom.start("sender")
        for share, offset in ((300, HOUR), (900, 0), (1_500, -HOUR)):
            await checker.until(
                lambda _, counts, share=share: counts.done >= share,  # type: ignore[misc]
                seconds=30,
                why=f"no progress before the clock is set to {offset}",
            )
            clock.set(offset)
        killed.kill()
        killed.wait()
        _, counts = await checker.until_done(60)
        assert counts.accepted == counts.planned == COUNT
        copies = server.copies()
        assert set(copies) == {address_of(number) for number in range(COUNT)}
        assert sum(copies.values()) - COUNT <= counts.possible_duplicates <= 4
        assert await asyncio.to_thread(postroom.stop, sender) == 0
    finally:
        postroom.kill_all()
