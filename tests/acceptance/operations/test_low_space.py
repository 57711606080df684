"""Little disk space: no new message starts, everybody can see why, and it resumes automatically."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.pages import SCHEDULE_QUEUE
from postroom.services.events import Severity
from postroom.wiring import Services
from tests.acceptance.harness import POSTROOM, Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import StoreAddress
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.stores.small_disk import mounted_small_disk
from tests.services.waiting import BUSY, until
from tests.web.site import running_site

COUNT = 200
MEGABYTE = 1_000_000
BEGINS = "No new message starts: "
ENDS = "Enough disk space for "


async def told(services: Services) -> list[tuple[Severity, str]]:
    """The events about disk space, oldest first, without their details."""
    events = (await services.events.slice()).events
    return [
        (each.severity, start)
        for each in reversed(events)
        for start in (BEGINS, ENDS)
        if each.text.startswith(start)
    ]


def run_check(postroom: Postroom) -> str:
    environment = {**os.environ, **postroom.address.environment, **postroom.environment()}
    done = subprocess.run(
        [POSTROOM, "check"],
        cwd=postroom.folder,
        env={**environment, "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=60 * BUSY,
    )
    return done.stdout


@pytest.mark.timeout(120)
async def test_below_the_low_space_mark_no_message_starts_until_there_is_room(
    engine: str, address: StoreAddress, server: RecordingSmtp, tmp_path: Path
) -> None:
    """The disk of the SQLite file, and the one of the data folder beside PostgreSQL."""
    with mounted_small_disk(64) as disk:
        data = tmp_path / "data"
        if engine == "sqlite":
            address = StoreAddress("sqlite", f"sqlite:///{disk.folder / 'postroom.db'}")
        else:
            data = disk.folder / "data"
        postroom = Postroom(address, server.url, tmp_path)
        postroom.settings |= {"data": str(data), "min_free_space": "20MB"}
        pages = {"data": str(data), "store": address.url}
        try:
            async with running_site(tmp_path, pages) as site:
                services, visitor = site.services, await site.user()
                await fill(services, COUNT)
                disk.fill_up_to(10 * MEGABYTE)
                scheduler = postroom.start("scheduler")
                postroom.start("sender")
                begun = [(Severity.WARNING, BEGINS)]

                async def is_recorded() -> bool:
                    return await told(services) == begun

                await until(is_recorded, "no event")
                message = await schedule(services)

                async def bell_was_heard() -> bool:
                    return (await services.store.queue(SCHEDULE_QUEUE).info()).length == 0

                await until(bell_was_heard, "the scheduler does not look")
                # Another scheduler takes over and finds the same: that is no further event.
                assert await asyncio.to_thread(postroom.stop, scheduler) == 0
                postroom.start("scheduler")

                found = await asyncio.to_thread(run_check, postroom)
                assert "no new message starts: " in found, found
                assert "22 MB needed" in found
                assert str(disk.folder) in found
                for page in ("/", f"/messages/{message.ref}"):
                    shown = (await visitor.get(page)).text
                    assert "Waiting for disk space: " in shown, page
                    assert "free, 22 MB needed" in shown
                assert (await services.messages.get(message.ref)).status is MessageStatus.PENDING
                assert await told(services) == begun
                assert not server.copies()

                disk.make_room()
                checker = SumChecker(services, message)
                await checker.until_it_continues(within=30)
                _, counts = await checker.until_done(30)
                assert counts.accepted == counts.planned == COUNT
                assert server.copies() == {address_of(number): 1 for number in range(COUNT)}

                async def end_is_recorded() -> bool:
                    return await told(services) == [*begun, (Severity.INFO, ENDS)]

                await until(end_is_recorded, "no event says that there is room again")
                assert "Waiting for disk space" not in (await visitor.get("/")).text
                assert "no new message starts" not in await asyncio.to_thread(run_check, postroom)
        finally:
            postroom.kill_all()
