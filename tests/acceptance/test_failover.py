"""PostgreSQL fails over to a server that lacks the last transactions, while emails are sent."""

import asyncio
from pathlib import Path

import pytest

from postroom.services.events import Severity
from postroom.storage import open_store
from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import StoreAddress
from tests.services.postgres import running_postgres
from tests.services.recording_smtp import RecordingSmtp, Rule

COUNT = 3_000


@pytest.mark.timeout(180)
@pytest.mark.parametrize("promote", [True, False], ids=["standby", "older copy"])
async def test_a_failover_that_loses_records_resends_nothing_without_a_mark(
    server: RecordingSmtp, tmp_path: Path, *, promote: bool
) -> None:
    server.script(Rule("end", wait=0.01))
    machines: list[Postroom] = []
    with running_postgres() as postgres:
        url = postgres.create_database()
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            store_address, settings = StoreAddress("postgres", url), {"sender_lease": "10s"}
            machines.append(Postroom(store_address, server.url, tmp_path / name, settings))
        try:
            async with await open_store(url) as store:
                services = Services(store)
                await fill(services, COUNT)
                message = await schedule(services)
                checker = SumChecker(services, message)
                machines[0].start("scheduler")
                for machine in machines:
                    machine.start("sender")
                await checker.until(lambda _, c: c.done >= 200, seconds=30, why="no progress")
                await asyncio.to_thread(postgres.back_up)
                _, kept = await checker.look()
                await checker.until(
                    lambda _, c: c.done >= kept.done + 500, seconds=30, why="no progress"
                )
                await asyncio.to_thread(postgres.fail_over, promote=promote)
                checker = SumChecker(services, message)  # accepted emails do come back
                done, counts = await checker.until_done(120)
                emails = services.outcomes.emails(done)
                marked = {each.address async for each in emails if each.was_in_doubt}
                copies = server.copies()
                assert set(copies) == {address_of(number) for number in range(COUNT)}, "lost"
                twice = {address for address, number in copies.items() if number > 1}
                assert len(twice) >= 300, "nothing was lost: this tests nothing"
                assert not twice - marked, "duplicates without a mark"
                assert len(marked) <= len(twice) + 100, "doubts without a reason"
                assert counts.accepted == COUNT
                events = (await services.events.page(least=Severity.WARNING)).events
                assert any("has lost the records of" in each.text for each in events)
        except AssertionError as exc:
            exc.add_note("\n".join(machine.logs()[-6000:] for machine in machines))
            raise
        finally:
            for machine in machines:
                machine.kill_all()
