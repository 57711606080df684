"""Stores that come back with an older state than the one from which emails were sent."""

import asyncio
import shutil
from pathlib import Path

import apsw
import pytest

from postroom.domain.messages.messages import MessageStatus
from postroom.services.events import Severity
from postroom.storage import open_store
from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import StoreAddress
from tests.services.mail.recording_smtp import RecordingSmtp, Rule

COUNT = 1_500


def back_up(database: Path, copy: Path) -> None:
    """As the guide says, while the store is in use."""
    source = apsw.Connection(str(database))
    source.execute("VACUUM INTO ?", (str(copy),))
    source.close()


def restore(database: Path, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    shutil.copy(copy, database)


async def first_error(services: Services) -> str:
    for _ in range(600):
        if found := (await services.events.slice(least=Severity.ERROR)).events:
            return found[-1].text
        await asyncio.sleep(0.1)
    raise AssertionError("no event tells of it")


@pytest.mark.timeout(180)
async def test_a_restored_backup_sends_nothing_until_someone_has_decided(
    server: RecordingSmtp, tmp_path: Path
) -> None:
    database, copy = tmp_path / "store.db", tmp_path / "copy.db"
    url = f"sqlite:///{database}"
    # The backup has leases of the sender that was at work.
    settings = {"sender_lease": "10s"}
    postroom = Postroom(StoreAddress("sqlite", url), server.url, tmp_path, settings)
    server.script(Rule("end", wait=0.02))
    try:
        async with await open_store(url) as store:
            services = Services(store)
            await fill(services, COUNT)
            message = await schedule(services)
            checker = SumChecker(services, message)
            parts = [postroom.start("scheduler"), postroom.start("sender")]
            await checker.until(lambda _, c: c.done >= 200, seconds=30, why="no progress")
            await asyncio.to_thread(back_up, database, copy)
            await checker.until(lambda _, c: c.done >= 800, seconds=30, why="no progress")
            for process in parts:
                assert await asyncio.to_thread(postroom.stop, process) == 0
        sent = len(server.accepted())
        restore(database, copy)
        async with await open_store(url) as store:
            services = Services(store)
            for part in ("scheduler", "sender"):
                postroom.start(part)
            checker = SumChecker(services, message)
            paused, _ = await checker.until(
                lambda message, _: message.status is MessageStatus.PAUSED,
                seconds=30,
                why="not paused",
            )
            assert "the store was restored to an earlier state" in paused.reason
            assert "or cancel it" in paused.reason
            event = await first_error(services)
            assert "1 unfinished message was paused" in event
            await asyncio.sleep(2.0)
            assert len(server.accepted()) == sent, "it goes on sending"
            # Once somebody has decided, the next start asks nothing.
            await services.message_states.resume(message.ref)
            postroom.start("sender")
            # The leases that the backup holds have to run out first: a minute.
            _, counts = await checker.until_done(100)
            assert counts.accepted == COUNT
            assert set(server.copies()) == {address_of(number) for number in range(COUNT)}
    finally:
        postroom.kill_all()
