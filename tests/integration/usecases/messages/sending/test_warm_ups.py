"""Warm-up plans: no more emails per day than planned, whatever happens to senders."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.domain.messages.delivery.warm_up import WarmUpPlan
from postroom.scheduler import Scheduler
from postroom.sender import Sender, SenderSettings
from postroom.sender.limits.paced_sending import SendPart
from postroom.sender.limits.sending_limits import WARMING_UP, SendingLimits
from postroom.sender.limits.warm_up_limits import WarmUpLimits
from postroom.sender.pages.page_sending import PageSending
from postroom.services.messages.sending.warm_ups import next_day
from postroom.storage import StoreUnavailable
from postroom.transport.registry import open_transport
from postroom.wiring import Services
from tests.integration.usecases.making import FROM, fill, make_list, schedule
from tests.services.mail.recording_smtp import running_recording_smtp
from tests.services.waiting import BUSY, until

only_sqlite = pytest.mark.parametrize("engine", ["sqlite"])
DOMAIN = FROM.partition("@")[2]


def plan(*volumes: int, domain: str = DOMAIN) -> WarmUpPlan:
    return WarmUpPlan(domain, datetime.now(UTC).date(), volumes)


@only_sqlite
@pytest.mark.timeout(180)
async def test_the_emails_beyond_a_day_s_volume_wait_for_the_next_day(
    services: Services, tmp_path: Path
) -> None:
    await fill(services.store, await make_list(services), 250)
    # A later day has the same volume, in case midnight passes meanwhile.
    await services.warm_ups.save(plan(30, 30, 1_000))
    message = await schedule(services)
    stopping = asyncio.Event()
    with running_recording_smtp(keep_content=False) as server:
        transport = open_transport(server.url, folder=tmp_path)
        limits = SendingLimits(warm_up=WarmUpLimits(services.warm_ups))
        settings = SenderSettings("http://localhost", tmp_path / "journals")
        senders = [Sender(services, transport, settings, limits) for _ in range(2)]
        parts = [Scheduler(services, lease_seconds=5).run(stopping)]
        parts += [each.run(stopping) for each in senders]
        running = [asyncio.create_task(part) for part in parts]

        async def all_wait() -> bool:
            progress = await services.progress.of(await services.messages.get(message.ref))
            return progress.waiting.deferred == 220

        await until(all_wait, "the rest waits")
        stopping.set()
        await asyncio.wait_for(asyncio.gather(*running), 60 * BUSY)
        await transport.close()
        assert len(server.received()) == 30
    found = await services.messages.get(message.ref)
    progress = await services.progress.of(found)
    counts = progress.counts
    assert (counts.planned, counts.accepted, counts.pending) == (250, 30, 220)
    assert progress.waiting.reply == WARMING_UP
    assert progress.waiting.next_try_at is not None
    assert progress.waiting.next_try_at <= next_day()
    [status] = await services.warm_ups.statuses()
    assert status.used == 30
    last = await services.warm_ups.last_day([status.plan], counts.pending)
    assert last == status.today + timedelta(days=2)


@only_sqlite
async def test_many_senders_never_take_more_than_a_day_has(services: Services) -> None:
    plans = [plan(1_000), plan(70, domain="all")]
    today = plans[0].starts
    for each in plans:
        await services.warm_ups.save(each)
    taken = await asyncio.gather(*(services.warm_ups.take(plans, 20, today) for _ in range(6)))
    assert sorted(taken) == [0, 0, 10, 20, 20, 20]
    assert await services.warm_ups.left(plans) == 0
    await services.warm_ups.give_back(plans, 5, today)
    assert await services.warm_ups.take(plans, 20, today) == 5
    await services.warm_ups.remove("all")
    assert await services.warm_ups.left(await services.warm_ups.plans()) == 930


@only_sqlite
async def test_what_was_not_sent_returns_to_the_day_it_was_taken_from(services: Services) -> None:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    plans = [WarmUpPlan(DOMAIN, yesterday, (100,) * 5)]
    await services.warm_ups.save(plans[0])
    today = yesterday + timedelta(days=1)
    await services.warm_ups.take(plans, 30, yesterday)
    await services.warm_ups.take(plans, 20, today)
    await services.warm_ups.give_back(plans, 10, yesterday)
    assert await services.warm_ups.take(plans, 100, yesterday) == 80
    assert await services.warm_ups.take(plans, 100, today) == 80


@only_sqlite
@pytest.mark.timeout(120)
async def test_a_page_that_cannot_be_sent_takes_nothing_from_its_day(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(services.store, await make_list(services), 20)
    await services.warm_ups.save(plan(50, 50))
    await schedule(services)
    used: list[int] = []

    async def fails(*_: object) -> SendPart:
        used.extend([each.used for each in await services.warm_ups.statuses()])
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(PageSending, "_send_part", fails)
    stopping = asyncio.Event()
    with running_recording_smtp(keep_content=False) as server:
        transport = open_transport(server.url, folder=tmp_path)
        limits = SendingLimits(warm_up=WarmUpLimits(services.warm_ups))
        settings = SenderSettings("http://localhost", tmp_path / "journals")
        parts = [
            Scheduler(services, lease_seconds=5).run(stopping),
            Sender(services, transport, settings, limits).run(stopping),
        ]
        running = [asyncio.create_task(part) for part in parts]
        await until(lambda: bool(used), "the sender tries")
        stopping.set()
        await asyncio.wait_for(asyncio.gather(*running), 60 * BUSY)
        await transport.close()
        assert server.received() == []
    assert used[0] == 20
    [status] = await services.warm_ups.statuses()
    assert status.used == 0


@only_sqlite
async def test_a_plan_counts_for_its_domain_and_its_subdomains_only(services: Services) -> None:
    await services.warm_ups.save(plan(10))
    limits = WarmUpLimits(services.warm_ups)
    assert len(await limits.plans(f"news.{DOMAIN}")) == 1
    assert len(await limits.plans(f"not{DOMAIN}")) == 0
