"""Faults that are not a recipient's: sending resumes after outages, one bad domain stops nobody,
and an account's fault never costs the list. Real processes, real faults of a mail server."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.sender.limits import connection_share
from postroom.sender.limits import stored_limits as throttle
from postroom.services import entities
from postroom.services.accounts.users import Role
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.storage import Insert, KeyRange
from postroom.web.requests.cookies import cookies_at
from postroom.wiring import Services
from tests.acceptance.harness import (
    LIST,
    Postroom,
    SumChecker,
    address_of,
    addresses_with,
    fill,
    schedule,
)
from tests.integration.usecases.operations.test_alerts import running_webhook
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import BUSY, accepts_connections, free_ports, until, wait_until

PASSWORD = "correct horse battery staple"

pytestmark = [pytest.mark.timeout(150)]


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """Holds need nothing of a store that the contract's own tests do not show for all three."""
    return str(request.param)


@pytest.fixture
def server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp(keep_content=False, user="me", password="secret") as running:
        yield running


@pytest.fixture
def postroom(postroom: Postroom, server: RecordingSmtp) -> Postroom:
    postroom.transport = server.url.replace("//", "//me:secret@")
    return postroom


async def until_senders(services: Services, count: int) -> None:
    """Wait until so many senders have taken their part of the connections."""
    table = services.store.table(throttle.TABLE)

    async def have_started() -> bool:
        found = await table.query(KeyRange.only(connection_share.PARTITION))
        return len(found.entities) == count

    await until(have_started, f"{count} senders start")


async def add(services: Services, *addresses: str) -> None:
    table = services.store.table(entities.LISTS)
    for address in addresses:
        new = new_subscriber(ListName(LIST), Address(address), verified=True)
        await table.apply(
            [Insert(entities.subscriber_entity(new)), Insert(entities.lookup_entity(new))]
        )


async def events_with(services: Services, beginning: str) -> list[str]:
    events = (await services.events.slice(limit=50)).events
    return [event.text for event in events if event.text.startswith(beginning)]


def touched(server: RecordingSmtp) -> set[str]:
    """The recipients whom a fault has met."""
    return {fault.subject for fault in server.faults() if fault.stage in ("RCPT", "DATA", "end")}


ACCOUNT_FAULTS = {
    "password": Rule("AUTH", reply="535 5.7.8 Username and password not accepted"),
    "login": Rule("MAIL", reply="530 5.7.0 Authentication required"),
    "quota": Rule("RCPT", reply="550 5.4.5 Daily user sending limit exceeded."),
    "sender": Rule("MAIL", reply="553 5.7.1 Sender address rejected: not owned by user"),
    "relay": Rule("RCPT", reply="554 5.7.1 <someone@example.com>: Relay access denied"),
    "size": Rule("end", reply="552 5.3.4 Message size exceeds fixed limit"),
    "unknown": Rule("RCPT", reply="550 5.5.0 Ask the wizard on level 7 about you"),
}


@pytest.mark.parametrize("fault", ACCOUNT_FAULTS)
async def test_an_account_fault_loses_no_recipient_and_ends_automatically(
    postroom: Postroom, services: Services, server: RecordingSmtp, fault: str
) -> None:
    await fill(services, 400)
    server.script(ACCOUNT_FAULTS[fault])
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    sums = SumChecker(services, message)
    await sums.until(lambda _, counts: counts.deferred > 300, seconds=30, why="no hold")
    [hold] = (await services.holds.open_holds()).by_key.values()
    assert hold.scope == ("message" if fault == "size" else "account")
    assert hold.reason
    server.script()
    done, counts = await sums.until_done(30)
    assert done.status is MessageStatus.COMPLETED
    assert (counts.accepted, counts.refused) == (400, 0)
    assert len(touched(server)) <= 50
    assert set(server.copies().values()) == {1}
    assert not await services.holds.open_holds()


async def test_three_senders_find_out_together_that_a_reply_is_not_about_recipients(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 2_000)
    server.script(ACCOUNT_FAULTS["unknown"])
    postroom.settings["connections"] = "16"  # the default
    postroom.start("scheduler")
    for _ in range(3):
        postroom.start("sender")
    await until_senders(services, 3)
    message = await schedule(services)
    sums = SumChecker(services, message)
    await sums.until(lambda _, counts: counts.deferred == 2_000, seconds=40, why="no hold")
    assert len(touched(server)) <= 50
    server.script()
    _, counts = await sums.until_done(60)
    assert (counts.accepted, counts.refused) == (2_000, 0)


async def test_try_now_asks_the_server_at_once(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 200)
    server.script(ACCOUNT_FAULTS["sender"])
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    sums = SumChecker(services, message)
    await sums.until(lambda _, counts: counts.deferred == 200, seconds=30, why="no hold")
    [hold] = (await services.holds.open_holds()).by_key.values()
    for _ in range(600 * BUSY):
        if hold.interval >= 30:
            break
        await asyncio.sleep(0.05)
        [hold] = (await services.holds.open_holds()).by_key.values()
    server.script()
    await services.message_holds.try_now(message.ref)
    asked_at = datetime.now(UTC)
    await until(lambda: len(server.accepted()) > 0, "something is sent", 30)
    assert datetime.now(UTC) < hold.next_probe, "it waited for the next probe"
    assert hold.next_probe - asked_at > timedelta(seconds=5)
    _, counts = await sums.until_done(30)
    assert counts.accepted == 200


async def test_an_outage_is_shown_and_ends_automatically(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 2_000)
    key = (await services.keys.create("all")).secret
    administrator = await services.users.create("a@example.org", PASSWORD, Role.ADMINISTRATOR)
    [port] = free_ports(1)
    with running_webhook() as (url, posted):
        base_url = f"http://127.0.0.1:{port}"
        postroom.settings |= {"port": str(port), "base_url": base_url, "alert_webhook": url}
        postroom.settings["connections"] = "16"  # the default
        postroom.start("up")
        wait_until(lambda: accepts_connections(port), seconds=60, what="the web server")
        server.script(Rule("end", wait=0.01))
        message = await schedule(services)
        sums = SumChecker(services, message)
        await sums.until(lambda _, counts: counts.accepted > 200, seconds=30, why="nothing sent")
        server.stop()
        away_since = time.monotonic()
        await sums.until(lambda _, counts: counts.deferred > 100, seconds=15, why="no hold")

        session = await services.sessions.start(administrator, "127.0.0.1", "a test")
        async with httpx2.AsyncClient(base_url=base_url, timeout=60) as http:
            headers = {"Authorization": f"Bearer {key}"}
            shown = (await http.get(f"/api/v1/messages/{message.ref}", headers=headers)).json()
            http.cookies.set(cookies_at(base_url).session, session, domain="127.0.0.1")
            pages = [(await http.get(path)).text for path in (f"/messages/{message.ref}", "/")]
        [hold] = shown["holds"]
        assert hold["scope"] == "account"
        assert hold["reply"]
        assert hold["since"] < hold["next_probe"]
        for page in pages:
            assert "All emails are on hold" in page
            assert "next attempt" in page.lower()
        await until(lambda: len(posted) > 0, "an alert is posted", 15)

        await asyncio.sleep(max(0.0, away_since + 20 - time.monotonic()))  # the outage's length
        server.script()
        server.start()
        _, counts = await sums.until_done(30)
        assert counts.accepted == 2_000
        assert len(await events_with(services, "All emails are on hold")) == 1
        resumed: list[str] = []
        for _ in range(600 * BUSY):
            if resumed := await events_with(services, "Sending resumed"):
                break
            await asyncio.sleep(0.05)
        assert len(resumed) == 1
        assert [each["text"][:22] for each in posted] == ["All emails are on hold"]
    copies = server.copies()
    assert set(copies) == {address_of(n) for n in range(2_000)}
    assert sum(copies.values()) - 2_000 <= counts.possible_duplicates


async def test_a_throttling_provider_slows_no_other_and_its_hold_survives_a_restart(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 1_900)
    slow = [f"user{number:06}x@slow.example" for number in range(0, 1_900, 19)]
    await add(services, *slow)
    postroom.start("scheduler")
    sender = postroom.start("sender")

    async def seconds_for_others() -> tuple[SumChecker, float]:
        message = await schedule(services)
        sums, began = SumChecker(services, message), time.monotonic()
        await sums.until(lambda _, counts: counts.accepted >= 1_900, seconds=60, why="too slow")
        return sums, time.monotonic() - began

    sums, without = await seconds_for_others()
    await sums.until_done()
    throttled = Rule("RCPT", r"@slow\.example", "451 4.7.0 [TSS04] Messages temporarily deferred")
    server.script(throttled)
    sums, with_it = await seconds_for_others()
    assert with_it < 3 * without + 20, "they waited for the slow provider"
    _, counts = await sums.until(lambda _, c: c.deferred == 100, seconds=30, why="not deferred")
    assert (counts.accepted, counts.refused, counts.pending) == (1_900, 0, 100)

    await asyncio.to_thread(postroom.stop, sender)
    assert list((await services.holds.open_holds()).by_key) == ["provider:slow.example"]
    before = len(server.faults())
    postroom.start("sender")
    await until(lambda: len(server.faults()) > before, "a probe is sent", 30)
    await asyncio.sleep(2)
    assert len(server.faults()) - before <= 10, "probes are single emails"
    server.script()
    _, counts = await sums.until_done(60)
    assert counts.accepted == 2_000
    assert set(server.copies().values()) == {2}  # one of each message


async def test_one_recipient_whose_provider_blocks_us_does_not_stop_the_message(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 2_000)
    blocked = "550 5.7.1 Service unavailable; client [192.0.2.7] blocked using zen.example"
    await add(services, "user001000x@blocking.example")
    server.script(Rule("RCPT", "@blocking", blocked))
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    sums = SumChecker(services, message)
    await sums.until(lambda _, counts: counts.accepted == 2_000, seconds=40, why="stopped")
    server.script()
    done, counts = await sums.until_done(60)
    assert done.status is MessageStatus.COMPLETED
    assert counts.accepted + counts.refused == 2_001


async def test_a_server_that_accepts_mail_without_replying_gets_three_copies_at_most(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 60)
    lost = {address_of(7), address_of(30)}
    server.script(*(Rule("end", address, drop=True) for address in lost))
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")
    sums = SumChecker(services, message)
    _, counts = await sums.until(lambda _, c: c.in_doubt == 2, seconds=70, why="not in doubt")
    assert (counts.accepted, counts.pending) == (58, 0)
    copies = server.copies()
    assert {copies[address] for address in lost} == {3}
    in_doubt = [each async for each in services.outcomes.emails(message, EmailOutcome.IN_DOUBT)]
    assert {each.address for each in in_doubt} == lost

    cancelled = await services.message_states.cancel(message.ref)
    _, counts = await sums.until_done()
    assert cancelled.status is MessageStatus.CANCELLED
    assert counts.possible_duplicates == 2, "a cancelled message keeps the trace of the copies"


MATRIX = {
    f"{stage} {fault}": rule
    for stage in ("MAIL", "RCPT", "DATA", "end")
    for fault, rule in (
        ("4xx", Rule(stage, reply="451 4.3.0 local error", times=3)),
        ("5xx", Rule(stage, reply="554 5.3.0 something is wrong here", times=3)),
        ("closes", Rule(stage, drop=True, times=3)),
        ("resets", Rule(stage, reset=True, times=3)),
        ("says 421", Rule(stage, reply="421 4.3.2 shutting down", drop=True, times=3)),
    )
} | {
    "greeting 554": Rule("greeting", reply="554 5.3.2 no service here", drop=True, times=3),
    "greeting closes": Rule("greeting", drop=True, times=3),
    "EHLO closes": Rule("EHLO", drop=True, times=3),
    "content closes": Rule("content", drop=True, times=3),
}


@pytest.mark.timeout(240)
async def test_no_cell_of_the_fault_matrix_loses_or_silently_duplicates_anything(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    """One message for each cell, one cell after the other, through the same processes."""
    await fill(services, 30)
    everybody = {address_of(number) for number in range(30)}
    postroom.settings["retry_first"] = "1s"
    postroom.start("scheduler")
    postroom.start("sender")
    for cell, rule in MATRIX.items():
        before = server.copies()
        server.script(rule)
        message = await schedule(services, cell)
        sums = SumChecker(services, message)
        _, counts = await sums.until_done(60)
        copies = server.copies() - before
        refused = await addresses_with(services, message, EmailOutcome.REFUSED)
        assert counts.accepted + counts.refused == 30, cell
        assert len(refused) <= 3, cell
        assert set(copies) | refused == everybody, f"{cell}: lost"
        twice = {address for address, times in copies.items() if times > 1}
        emails = services.outcomes.emails(message)
        listed = {each.address async for each in emails if each.was_in_doubt}
        assert twice <= listed, f"{cell}: twice in silence"
        assert len(listed) == counts.possible_duplicates, cell
        if cell in ("content closes", "end closes"):  # the whole email had left this machine
            assert 1 <= len(listed) <= 3, cell
        elif cell.endswith("closes"):
            assert not listed, cell
    assert not await services.holds.open_holds()
