"""Waves with real processes and a real mail server: a canary stops at its share, or delays the
others by its wait and no more; and a scheduler that is killed again and again decides the same."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from itertools import product

import msgspec
import pytest

from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.waves.buckets import bucket_of
from postroom.services import entities
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import Entity
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, SumChecker, address_of, fill
from tests.long import sized
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.waiting import BUSY

KILLS = sized(15, 60)
CANARIES = sized(
    [("sqlite", True), ("postgres", False)], list(product(("sqlite", "postgres"), (True, False)))
)
"""Each engine, and whether the canary is healthy: what a scheduler decides does not depend on the
engine, and how an engine keeps it not on the decision."""
ONE_OF_TEN = Rule("RCPT", r"7@example\.com", "550 5.1.1 no such user")


def name_of(value: str | bool) -> str:
    return value if isinstance(value, str) else ("healthy" if value else "refused")


async def schedule(services: Services, canary: str = "") -> Message:
    bodies = NewBodies("<p>Hello</p>", "Hello")
    return await services.messages.create(
        LIST, "News", bodies, datetime.now(UTC), options=SendingOptions(canary=canary)
    )


async def canary_of(services: Services, message: Message, share: float) -> set[str]:
    return {
        each.address
        async for each in services.subscriptions.all(message.list_name)
        if bucket_of(message.ref, each.guid) < share * 10_000
    }


async def test_a_canary_whose_server_refuses_a_tenth_stops_at_its_share(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    server.script(ONE_OF_TEN)
    postroom.settings.update(canary_from="1000", canary_share="10", canary_wait="1s")
    await fill(services, 2_000)
    message = await schedule(services)
    postroom.start("scheduler")
    postroom.start("sender")

    checker = SumChecker(services, message)
    paused, counts = await checker.until(
        lambda message, _: message.status is MessageStatus.PAUSED, seconds=60, why="not paused"
    )
    canary = await canary_of(services, message, 0.1)
    assert counts.planned == len(canary)
    assert counts.pending == 0
    assert counts.refused == sum(each.endswith("7@example.com") for each in canary)
    assert set(server.copies()) == {each for each in canary if not each.endswith("7@example.com")}
    assert "were refused or bounced" in paused.reason
    assert any(paused.reason in each.text for each in (await services.events.slice()).events)

    server.script()
    await services.message_states.resume(message.ref)
    _, counts = await checker.until_done()
    assert counts.accepted == 2_000 - counts.refused
    assert set(server.copies().values()) == {1}


async def test_a_healthy_canary_delays_a_message_by_its_wait_and_hardly_more(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    await fill(services, 1_000)
    message = await schedule(services, "5%,3s")
    postroom.start("scheduler")
    postroom.start("sender")

    checker = SumChecker(services, message)
    share = len(await canary_of(services, message, 0.05))
    await checker.until(lambda _, counts: counts.accepted == share, seconds=60, why="not sent")
    sent_at = time.monotonic()
    await checker.until(lambda _, counts: counts.planned > share, seconds=60, why="no others")
    assert 2.5 < time.monotonic() - sent_at < 3.0 + 3.0 * BUSY
    _, counts = await checker.until_done()
    assert counts.accepted == counts.planned == 1_000
    assert set(server.copies().values()) == {1}


@pytest.mark.timeout(sized(240, 1800))
@pytest.mark.parametrize(("engine", "is_healthy"), CANARIES, indirect=["engine"], ids=name_of)
async def test_a_scheduler_that_is_killed_during_canaries_forgets_nobody(
    postroom: Postroom, services: Services, server: RecordingSmtp, is_healthy: bool
) -> None:
    count = sized(1_500, 15_000)
    if not is_healthy:
        server.script(ONE_OF_TEN)
    await fill(services, count)
    message = await schedule(services, "30%,500ms")
    canary = await canary_of(services, message, 0.3)
    postroom.start("sender")
    checker = SumChecker(services, message)
    for _ in range(KILLS):
        scheduler = postroom.start("scheduler")
        await asyncio.sleep(random.uniform(0.8, 1.8))  # it needs most of a second to start
        scheduler.kill()
        scheduler.wait()
        await checker.look()
    postroom.start("scheduler")
    if not is_healthy:
        _, counts = await checker.until(
            lambda message, _: message.status is MessageStatus.PAUSED, seconds=90, why="not paused"
        )
        assert counts.planned == len(canary)
        assert set(server.copies()) <= canary
        await services.message_states.resume(message.ref)
    _, counts = await checker.until_done(90)
    assert counts.planned == count
    wanted = {address_of(number) for number in range(count)}
    if not is_healthy:
        wanted = {each for each in wanted if not each.endswith("7@example.com")}
    assert set(server.copies()) == wanted
    assert set(server.copies().values()) == {1}


@pytest.mark.timeout(sized(240, 1800))
async def test_a_scheduler_that_is_killed_between_waves_of_local_time_forgets_nobody(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count, zones = sized(600, 6_000), ("Etc/GMT-1", "UTC", "")
    await fill(services, count)
    table = services.store.table(entities.LISTS)
    for number in range(count):
        values = msgspec.json.encode({"time_zone": zones[number % 3]}).decode()
        row = entities.email_row(address_of(number))
        await table.merge(Entity(LIST, row, {"Attributes": values}))
    due = datetime.now(UTC) + timedelta(seconds=12)
    bodies = NewBodies("<p>Hello</p>", "Hello")
    message = await services.messages.create(
        LIST, "News", bodies, due, options=SendingOptions(local_time=True)
    )
    postroom.start("sender")
    checker = SumChecker(services, message)
    early = {address_of(number) for number in range(0, count, 3)}
    for _ in range(KILLS):
        scheduler = postroom.start("scheduler")
        await asyncio.sleep(random.uniform(0.8, 1.8))
        copies = set(server.copies())
        if datetime.now(UTC) < due:
            assert copies <= early, "somebody got it before their time"
        scheduler.kill()
        scheduler.wait()
        await checker.look()
    postroom.start("scheduler")
    _, counts = await checker.until_done(90)
    assert counts.accepted == counts.planned == count
    assert set(server.copies().values()) == {1}
