"""What the start page is made of: messages by time, progress, health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.domain.messages.emails import Counts
from postroom.services import entities
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.page_rows import page_row
from postroom.services.operations.health import STUCK, Grade, HealthService
from postroom.storage import Entity, open_store
from postroom.wiring import Services

NOW = datetime.now(UTC)
BODIES = NewBodies("<p>Hello</p>", "Hello")


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    async with await open_store(f"sqlite:///{tmp_path}/store.db") as store:
        yield Services(store)


async def scheduled(services: Services, subject: str, at: datetime) -> str:
    return (await services.messages.create("news", subject, BODIES, at)).ref


async def done(services: Services, subject: str, at: datetime) -> str:
    message = await services.messages.create("news", subject, BODIES, at)
    await services.message_states.cancel(message.ref)
    await services.message_rows.archive(await services.messages.get(message.ref))
    return message.ref


# -- messages by time -----------------------------------------------------------------------------


async def test_messages_are_found_by_when_they_are_due(services: Services) -> None:
    await services.lists.create("news", "News", "news@example.com")
    late = await scheduled(services, "late", NOW - timedelta(days=2))
    just = await scheduled(services, "just", NOW - timedelta(minutes=1))
    soon = await scheduled(services, "soon", NOW + timedelta(hours=1))
    then = await scheduled(services, "then", NOW + timedelta(days=40))
    over = await done(services, "over", NOW - timedelta(days=1))
    times = services.times
    assert [m.ref for m in await times.under_way(limit=10)] == [late, just]
    assert [m.ref for m in await times.upcoming(limit=10)] == [soon, then]
    assert [m.ref for m in (await times.done(limit=10)).messages] == [over]
    everything = await times.all(limit=10)
    assert [m.ref for m in everything.messages] == [then, soon, just, over, late]
    assert everything.next is None


async def test_a_cancelled_message_is_not_open_even_before_it_is_archived(
    services: Services,
) -> None:
    await services.lists.create("news", "News", "news@example.com")
    for hours in (-2, 2):
        kept = await scheduled(services, "kept", NOW + timedelta(hours=hours))
        cancelled = await scheduled(services, "not sent", NOW + timedelta(hours=hours))
        await services.message_states.cancel(cancelled)
        open_ones = services.times.under_way if hours < 0 else services.times.upcoming
        assert [m.ref for m in await open_ones(limit=10)] == [kept]
    counts = await services.times.count_open(most=10)
    assert (counts.under_way, counts.upcoming) == (1, 1)


async def test_newest_first_continues_where_it_ended(services: Services) -> None:
    await services.lists.create("news", "News", "news@example.com")
    ages = [0, 0, 1, 1, 3, 12, 12, 50, 200, 4000]
    made = [await scheduled(services, f"{n}", NOW - timedelta(days=d)) for n, d in enumerate(ages)]
    seen: list[str] = []
    before: str | None = None
    for _ in range(len(ages)):
        page = await services.times.all(limit=3, before=before)
        seen += [message.ref for message in page.messages]
        if (before := page.next) is None:
            break
    assert len(seen) == len(made)
    assert set(seen) == set(made)
    moments = [(await services.messages.get(ref)).due_at for ref in seen]
    assert moments == sorted(moments, reverse=True)


@pytest.mark.parametrize("before", ["nonsense", "9999", "'; --", "0001-01-01T00:00:00Z,1"])
async def test_a_position_that_was_never_returned_is_not_an_error(
    services: Services, before: str
) -> None:
    await services.lists.create("news", "News", "news@example.com")
    await scheduled(services, "now", NOW)
    assert len((await services.times.all(limit=3, before=before)).messages) <= 1


# -- progress -------------------------------------------------------------------------------------


async def page_of(services: Services, ref: str, number: int, counts: Counts) -> None:
    message = await services.messages.get(ref)
    properties = {
        **entities.counts_properties(counts),
        "FirstAddress": f"{number}a@x.com",
        "LastAddress": f"{number}z@x.com",
    }
    table = services.store.table(entities.PAGES)
    partition = entities.pages_partition(message.day, message.ref)
    await table.upsert(Entity(partition, page_row(number), properties))


async def test_progress_is_the_sum_of_the_pages_and_gets_newer(services: Services) -> None:
    await services.lists.create("news", "News", "news@example.com")
    ref = await scheduled(services, "now", NOW)
    await page_of(services, ref, 0, Counts(planned=100, accepted=40, refused=2))
    await page_of(services, ref, 1, Counts(planned=50))
    message = await services.messages.get(ref)
    first = await services.progress.of(message)
    assert first.counts == Counts(planned=150, accepted=40, refused=2)
    assert first.rate is None
    await page_of(services, ref, 1, Counts(planned=50, accepted=50))
    async with asyncio.timeout(60):
        while (now := await services.progress.of(message)).counts.accepted != 90:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert now.rate is not None
    assert now.rate > 0
    assert now.seconds_left is not None


# -- health ---------------------------------------------------------------------------------------


async def test_nothing_to_look_at(services: Services) -> None:
    health = await services.health.look()
    assert (health.hosts, health.waiting, health.failed, health.concerns) == (0, 0, 0, [])


async def test_a_queue_whose_next_message_is_never_taken_is_a_concern(services: Services) -> None:
    clock = [datetime.now(UTC)]
    health = HealthService(services.hosts, services.queue_overview, now=lambda: clock[0])
    await services.queues.put("mail/send", "page")
    await services.queues.put("shop/orders", "order")
    assert (await health.look()).concerns == []
    clock[0] += 2 * STUCK
    concerns = (await health.look()).concerns
    assert [(c.grade, c.queue) for c in concerns] == [
        (Grade.STOPPED, "mail/send"),
        (Grade.STOPPED, "shop/orders"),
    ]
    [taken] = await services.store.queue("mail/send").receive(lease=30)
    await services.store.queue("mail/send").delete(taken)
    assert [c.queue for c in (await health.look()).concerns] == ["shop/orders"]


async def test_a_long_queue_that_moves_is_not_a_concern(services: Services) -> None:
    clock = [datetime.now(UTC)]
    health = HealthService(services.hosts, services.queue_overview, now=lambda: clock[0])
    queue = services.store.queue("mail/send")
    await queue.put_many(["page"] * 5)
    for _ in range(4):
        [taken] = await queue.receive(lease=30)
        await queue.delete(taken)
        assert (await health.look()).concerns == []
        clock[0] += STUCK - timedelta(seconds=1)


async def test_failed_messages_and_stopped_queues_are_named(services: Services) -> None:
    await services.store.queue("shop/orders;poison").put("bad")
    await services.store.queue("shop/orders;dead-letter").put_many(["old", "older"])
    await services.queues.fault("shop/orders", "it cannot go on")
    health = await services.health.look()
    assert health.failed == 3
    assert [(c.grade, c.queue) for c in health.concerns] == [
        (Grade.STOPPED, "shop/orders"),
        (Grade.LOOK, "shop/orders;poison"),
        (Grade.LOOK, "shop/orders;dead-letter"),
    ]
    assert "it cannot go on" in health.concerns[0].text
