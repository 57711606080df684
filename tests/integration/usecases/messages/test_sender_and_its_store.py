"""A sender whose store goes away, or whose page does, between the mail server's answers and their
record."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import pytest

from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.sender import Sender, SenderSettings
from postroom.sender.faults import store_outages as store_outages
from postroom.sender.pages import active_pages as active
from postroom.sender.pages.active_pages import ActivePage, Leases
from postroom.sender.pages.claims import Claim, Claims
from postroom.sender.pages.page import PageStore
from postroom.sender.policy import RetryPlan
from postroom.services import entities
from postroom.storage import LeaseLost, QueueMessage, Step, Store, StoreUnavailable
from postroom.transport.registry import open_transport
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated
from tests.integration.usecases.making import fill, make_list, rows_of, schedule
from tests.integration.usecases.pages import check_sum, fan_out_whole
from tests.services.recording_smtp import RecordingSmtp, Rule, running_recording_smtp

LEASE = 60.0
SELDOM = RetryPlan()
STEPS = 4
"""Archive, emails, page with claim, work item."""

Secured: TypeAlias = tuple[Claim, QueueMessage | None]


async def ready(services: Services) -> Message:
    """A message of one page that waits for a sender."""
    return await fan_out_whole(services.store, (await schedule(services)).ref)


@asynccontextmanager
async def sender(
    store: Store,
    server: RecordingSmtp,
    folder: Path,
    retry: RetryPlan = SELDOM,
    lease: float = LEASE,
) -> AsyncIterator[None]:
    transport = open_transport(server.url, folder=folder)
    settings = SenderSettings("http://localhost", folder / "journals", retry=retry, lease=lease)
    stopping = asyncio.Event()
    running = asyncio.create_task(Sender(Services(store), transport, settings).run(stopping))
    try:
        yield
    finally:
        stopping.set()
        await asyncio.wait_for(running, 60)
        await transport.close()


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(3000):
        if await is_so():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not within a minute")


class Leaving(Fated):
    """Goes away once, after the first steps of a page's record."""

    def __init__(self, inner: Store, after: int) -> None:
        super().__init__(inner, Fate())
        self._steps: int | None = after

    async def write_in_order(self, steps: Sequence[Step], *, patience: float = 0.0) -> None:
        if self._steps is None:
            await self._inner.write_in_order(steps, patience=patience)
            return
        assert len(steps) == STEPS
        first, self._steps = steps[: self._steps], None
        await self._inner.write_in_order(first)
        raise StoreUnavailable("the store is being restarted")


@pytest.fixture
async def readers(services: Services) -> list[str]:
    return [each.address for each in await fill(services.store, await make_list(services), 7)]


async def test_answers_wait_for_a_store_that_is_away(
    services: Services, readers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_outages, "_RETRY_SECONDS", 0.01)
    with running_recording_smtp(keep_content=False) as server:
        for recorded in range(STEPS):
            message = await ready(services)
            away = Leaving(services.store, recorded)

            async def is_done(message: Message = message) -> bool:
                return (await services.outcomes.counts(message)).pending == 0

            async with sender(away, server, tmp_path / str(recorded)):
                await eventually(is_done)
            counts = await check_sum(services, message)
            assert counts.accepted == counts.planned == len(readers)
            assert counts.possible_duplicates == 0
        assert server.copies() == dict.fromkeys(readers, STEPS)


async def test_a_page_that_is_released_can_be_received_again_at_once(
    services: Services, readers: list[str], tmp_path: Path
) -> None:
    """By the same sender, while it is still letting go: no lease has to run out first."""
    message = await ready(services)

    async def is_done() -> bool:
        return (await services.outcomes.counts(message)).pending == 0

    with running_recording_smtp(keep_content=False) as server:
        server.script(Rule("RCPT", reply="451 4.2.1 try later", times=12, each=True))
        at_once = RetryPlan(first=timedelta(0), longest=timedelta(0))
        async with sender(services.store, server, tmp_path, at_once):
            await eventually(is_done)
        assert server.copies() == dict.fromkeys(readers, 1)


async def test_who_comes_back_too_late_records_nothing(
    services: Services, readers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspended between the answers and their record, while another sender took the page over."""
    message = await ready(services)
    item = WorkItem(message.day, message.ref, 0, restarted=False)
    other = Claims(services.store, "another sender")
    taken: list[Claim] = []

    async def take_over_first(
        leases: Leases, held: ActivePage, claim: Claim, **how: bool
    ) -> Secured:
        found = await other.find(item)
        assert found is not None
        taken.append(await other.take_over(item, "an item", 60, found.etag))
        return await secure(leases, held, claim, **how)

    async def is_taken_over() -> bool:
        return bool(taken)

    secure = Leases.secure
    monkeypatch.setattr(Leases, "secure", take_over_first)
    monkeypatch.setattr(active, "_now", lambda now=active._now: now() + LEASE / 2 + 1)
    with running_recording_smtp(keep_content=False) as server:
        async with sender(services.store, server, tmp_path):
            await eventually(is_taken_over)
        assert server.copies() == dict.fromkeys(readers, 1)
    assert await rows_of(services.store, entities.ARCHIVE, item.partition) == []
    loaded = await PageStore(services.store).load(taken[0])
    assert loaded is not None
    assert sorted(loaded.emails) == readers
    assert (await check_sum(services, message)).pending == len(readers)


async def test_who_takes_its_own_page_again_after_it_lost_the_answers_doubts_it(
    services: Services, readers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await ready(services)
    lost: list[Claim] = []

    async def lose_once(leases: Leases, held: ActivePage, claim: Claim, **how: bool) -> Secured:
        if not lost:
            lost.append(claim)
            await services.store.queue(SEND_QUEUE).release(held.message)
            raise LeaseLost("suspended for too long")
        return await secure(leases, held, claim, **how)

    async def is_done() -> bool:
        return (await services.outcomes.counts(message)).pending == 0

    secure = Leases.secure
    monkeypatch.setattr(Leases, "secure", lose_once)
    with running_recording_smtp(keep_content=False) as server:
        async with sender(services.store, server, tmp_path, lease=1.0):
            await eventually(is_done)
        assert server.copies() == dict.fromkeys(readers, 2)
    counts = await check_sum(services, message)
    assert counts.accepted == counts.possible_duplicates == len(readers)
