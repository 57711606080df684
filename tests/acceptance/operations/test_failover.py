"""PostgreSQL fails over to a server that lacks the last transactions, while emails are sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.services.events import Severity
from postroom.storage import KeyRange, open_store
from postroom.wiring import Services
from tests.acceptance.harness import CONNECTIONS, Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import StoreAddress
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.stores.postgres import PostgresServer, running_postgres
from tests.services.waiting import until

COUNT = 3_000
LEASE = {"sender_lease": "10s"}


@asynccontextmanager
async def running(
    url: str, transport: str, *folders: Path, **settings: str
) -> AsyncIterator[tuple[Services, list[Postroom]]]:
    """A filled store, and a machine for each folder, whose processes are killed in the end."""
    machines: list[Postroom] = []
    for folder in folders:
        folder.mkdir()
        address = StoreAddress("postgres", url)
        machines.append(Postroom(address, transport, folder, LEASE | settings))
    try:
        async with await open_store(url) as store:
            services = Services(store)
            await fill(services, COUNT)
            yield services, machines
    except AssertionError as exc:
        exc.add_note("\n".join(machine.logs()[-6000:] for machine in machines))
        raise
    finally:
        for machine in machines:
            machine.kill_all()


async def send_more_than_is_kept(
    server: RecordingSmtp, postgres: PostgresServer, checker: SumChecker
) -> None:
    """Send, copy the database, and send 500 emails that the copy has no records of."""
    await checker.until(lambda _, c: c.done >= 200, seconds=30, why="no progress")
    server.script(Rule("end", wait=0.2))  # there must be 500 left after the copy
    await asyncio.to_thread(postgres.back_up)
    _, kept = await checker.look()
    server.script(Rule("end", wait=0.01))
    await checker.until(lambda _, c: c.done >= kept.done + 500, seconds=30, why="no progress")


def everybody() -> set[Address]:
    return {address_of(number) for number in range(COUNT)}


async def warnings(services: Services) -> str:
    return "\n".join(e.text for e in (await services.events.slice(least=Severity.WARNING)).events)


async def marked(services: Services, message: Message) -> set[Address]:
    """The emails that are or were in doubt."""
    emails = services.outcomes.emails(message)
    doubt = EmailOutcome.IN_DOUBT
    return {e.address async for e in emails if e.was_in_doubt or e.outcome is doubt}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("promote", [True, False], ids=["standby", "older copy"])
async def test_a_failover_that_loses_records_resends_nothing_without_a_mark(
    server: RecordingSmtp, tmp_path: Path, *, promote: bool
) -> None:
    server.script(Rule("end", wait=0.01))
    folders = tmp_path / "one", tmp_path / "two"
    with running_postgres() as postgres:
        url = postgres.create_database()
        async with running(url, server.url, *folders) as (services, machines):
            message = await schedule(services)
            machines[0].start("scheduler")
            for machine in machines:
                machine.start("sender")
            await send_more_than_is_kept(server, postgres, SumChecker(services, message))
            await asyncio.to_thread(postgres.fail_over, promote=promote)
            checker = SumChecker(services, message)  # accepted emails do come back
            await checker.until_it_continues(within=30)
            done, counts = await checker.until_done(120)
            flagged = await marked(services, done)
            copies = server.copies()
            assert set(copies) == everybody(), "lost"
            twice = {address for address, number in copies.items() if number > 1}
            assert len(twice) >= 300, "nothing was lost: this tests nothing"
            assert sorted(twice - flagged) == [], "duplicates without a mark"
            assert len(flagged) <= len(twice) + 100, "emails in doubt without a reason"
            assert counts.accepted == COUNT
            assert "has lost the records of" in await warnings(services)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("in_doubt", ["resend", "hold"])
async def test_senders_that_are_killed_in_a_failover_leave_a_record_of_what_they_sent(
    server: RecordingSmtp, tmp_path: Path, in_doubt: str
) -> None:
    """Less is missing than the marks tell: the senders' files alone know of it."""
    server.script(Rule("end", wait=0.01))
    promote = in_doubt == "resend"
    with running_postgres() as postgres:
        url = postgres.create_database()
        folder = tmp_path / "machine"
        async with running(url, server.url, folder, in_doubt=in_doubt) as (services, [machine]):
            message = await schedule(services)
            machine.start("scheduler")
            senders = [machine.start("sender") for _ in range(2)]
            await send_more_than_is_kept(server, postgres, SumChecker(services, message))
            for sender in senders:
                sender.kill()
            sent = set(server.copies())
            await asyncio.to_thread(postgres.fail_over, promote=promote)
            (folder / "data" / "store-history.json").unlink()
            kept = (await SumChecker(services, message).look())[1].accepted
            for _ in senders:
                machine.start("sender")
            # A message with held emails does not complete.
            checker = SumChecker(services, message)
            done, counts = await checker.until(
                lambda _, c: c.planned == COUNT and not c.pending, seconds=120, why="not done"
            )
            flagged = await marked(services, done)
            copies = server.copies()
            assert set(copies) == everybody(), "lost"
            twice = {address for address, number in copies.items() if number > 1}
            lost = len(sent) - kept
            assert lost >= 500, "nothing was lost: this tests nothing"
            assert sorted(twice - flagged) == [], "duplicates without a mark"
            assert len(flagged) <= lost + 2 * CONNECTIONS, "emails in doubt without a reason"
            if in_doubt == "hold":
                assert not twice, "sent again before anybody decided"
                assert counts.in_doubt == len(flagged) >= 300
            warned = await warnings(services)
            assert "has lost the records of" in warned
            assert ("timeline 1 before" in warned and "timeline 2 now" in warned) is promote


@pytest.mark.timeout(180)
async def test_whole_pages_that_a_failover_loses_are_in_doubt_once_they_are_queued_again(
    server: RecordingSmtp, tmp_path: Path
) -> None:
    server.script(Rule("end", wait=0.01))
    with running_postgres() as postgres:
        url = postgres.create_database()
        async with running(url, server.url, tmp_path / "machine") as (services, [machine]):
            message = await schedule(services)
            machine.start("sender")
            await until_marked(services)
            await asyncio.to_thread(postgres.back_up)  # of a message without pages
            machine.start("scheduler")
            await SumChecker(services, message).until(
                lambda _, c: c.done >= 500, seconds=30, why="no progress"
            )
            await asyncio.to_thread(postgres.fail_over, promote=True)
            done, counts = await SumChecker(services, message).until_done(120)
            flagged = await marked(services, done)
            copies = server.copies()
            assert set(copies) == everybody(), "lost"
            twice = {address for address, number in copies.items() if number > 1}
            assert len(twice) >= 500, "nothing was lost: this tests nothing"
            assert sorted(twice - flagged) == [], "duplicates without a mark"
            assert counts.accepted == COUNT


async def until_marked(services: Services) -> None:
    """Wait until a sender has set its first mark."""
    table = services.store.table("storeinfo")

    async def is_set() -> bool:
        return bool((await table.query(KeyRange.only("marks"))).entities)

    await until(is_set, "a sender sets its first mark")
