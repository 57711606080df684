"""A sender whose store goes away, or whose page does, between the mail server's answers and their
record."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import SEND_QUEUE
from postroom.mail.mailing import Recipient
from postroom.sender import Sender, SenderSettings, queue_loop
from postroom.sender.faults import store_outages
from postroom.sender.pages.active_pages import ActivePage, Leases
from postroom.sender.pages.claims import Claims
from postroom.sender.pages.group_claims import ClaimedGroup, GroupClaims, Recipients
from postroom.sender.pages.settler import Settler
from postroom.sender.pages.settling import settled
from postroom.sender.policy import RetryPlan
from postroom.services.messages.sending.holds import Holds
from postroom.services.messages.sending.page_rows import Page, page_entity
from postroom.storage import LeaseLost, QueueMessage, Step, Store, StoreUnavailable
from postroom.transport.registry import open_transport
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import check_sum, fan_out_whole
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp
from tests.services.waiting import BUSY, until

LEASE = 60.0
SELDOM = RetryPlan()
STEPS = 2
"""The page, the work item."""


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
    services: Services | None = None,
) -> AsyncIterator[None]:
    transport = open_transport(server.url, folder=folder)
    settings = SenderSettings("http://localhost", folder / "journals", retry=retry, lease=lease)
    stopping = asyncio.Event()
    running = asyncio.create_task(
        Sender(services or Services(store), transport, settings).run(stopping)
    )
    try:
        yield
    finally:
        stopping.set()
        await asyncio.wait_for(running, 60 * BUSY)
        await transport.close()


class Leaving(Fated):
    """Goes away once, after the first steps of a page's record."""

    def __init__(self, inner: Store, after: int) -> None:
        super().__init__(inner, Fate())
        self._steps: int | None = after

    async def write_in_order(self, steps: Sequence[Step]) -> None:
        if self._steps is None:
            await self._inner.write_in_order(steps)
            return
        assert len(steps) == STEPS
        first, self._steps = steps[: self._steps], None
        await self._inner.write_in_order(first)
        raise StoreUnavailable("the store is being restarted")


@pytest.fixture
async def readers(services: Services) -> list[str]:
    return [each.address for each in await fill(services.store, await make_list(services), 7)]


async def test_replies_wait_for_an_unavailable_store(
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
                await until(is_done, "the message is done")
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
        immediately = RetryPlan(first=timedelta(0), longest=timedelta(0))
        async with sender(services.store, server, tmp_path, immediately):
            await until(is_done, "the message is done")
        assert server.copies() == dict.fromkeys(readers, 1)


async def test_a_sender_that_comes_back_too_late_records_nothing(
    services: Services, readers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspended between the replies and their record, while another sender took the page over."""
    message = await ready(services)
    taken: list[Page] = []
    renew = Leases.renew

    async def take_over_first(leases: Leases, mine: ActivePage) -> bool:
        if not taken:
            assert mine.page is not None
            other = Claims(services.pages, "another sender", LEASE)
            taken.append(await other.take_over(mine.page, doubtful=True))
        return await renew(leases, mine)

    async def is_taken_over() -> bool:
        return bool(taken)

    monkeypatch.setattr(Leases, "renew", take_over_first)
    monkeypatch.setattr(Leases, "is_overdue", lambda *_: True)
    with running_recording_smtp(keep_content=False) as server:
        async with sender(services.store, server, tmp_path):
            await until(is_taken_over, "the page is taken over")
        assert server.copies() == dict.fromkeys(readers, 1)
    page = await services.pages.get(message.day, message.ref, 0)
    assert page is not None
    assert (page.etag, page.claim.owner) == (taken[0].etag, "another sender")
    assert (await check_sum(services, message)).pending == len(readers)


async def test_a_sender_that_takes_its_page_again_without_its_results_leaves_it_in_doubt(
    services: Services, readers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await ready(services)
    lost: list[Page] = []
    settle = Settler.settle

    async def lose_once(
        settler: Settler, page: Page, etag: str, item: QueueMessage | None = None
    ) -> None:
        if not lost:
            lost.append(page)
            assert item is not None
            await services.store.queue(SEND_QUEUE).release(item)
            raise LeaseLost("suspended for too long")
        await settle(settler, page, etag, item)

    async def is_done() -> bool:
        return (await services.outcomes.counts(message)).pending == 0

    monkeypatch.setattr(Settler, "settle", lose_once)
    with running_recording_smtp(keep_content=False) as server:
        async with sender(services.store, server, tmp_path, lease=1.0):
            await until(is_done, "the message is done")
        assert server.copies() == dict.fromkeys(readers, 2)
    counts = await check_sum(services, message)
    assert counts.accepted == counts.possible_duplicates == len(readers)


async def test_an_email_that_becomes_due_while_subscribers_are_read_is_not_suppressed(
    services: Services, readers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await ready(services)
    page = await services.pages.get(message.day, message.ref, 0)
    assert page is not None
    due_at = datetime.now(UTC) + timedelta(seconds=4)
    deferred = EmailState(reply="451 later", tries=1, next_try_at=due_at)
    after = settled(page, {0: deferred}, Holds(), datetime.now(UTC))
    await services.pages.table.replace(page_entity(after), page.etag)
    allowed = Recipients.allowed

    async def read_slowly(*arguments: Any) -> dict[Address, Recipient]:
        found = await allowed(*arguments)
        await asyncio.sleep((due_at - datetime.now(UTC)).total_seconds() + 0.1)
        return found

    async def is_done() -> bool:
        return (await services.outcomes.counts(message)).pending == 0

    monkeypatch.setattr(Recipients, "allowed", read_slowly)
    with running_recording_smtp(keep_content=False) as server:
        async with sender(services.store, server, tmp_path):
            await until(is_done, "the message is done")
        assert server.copies() == dict.fromkeys(readers, 1)


async def test_pages_that_wait_to_be_recorded_do_not_keep_others_from_being_sent(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everyone = await fill(services.store, await make_list(services), 1000)
    message = await ready(services)
    all_sent = asyncio.Event()
    settle = Settler.settle

    async def settle_later(
        settler: Settler, page: Page, etag: str, item: QueueMessage | None = None
    ) -> None:
        await all_sent.wait()
        await settle(settler, page, etag, item)

    claim = GroupClaims.claim

    async def claim_and_poll_no_more(
        claims: GroupClaims, group: Sequence[ActivePage]
    ) -> ClaimedGroup | None:
        monkeypatch.setattr(queue_loop, "_ROOM_SECONDS", 3600.0)
        return await claim(claims, group)

    monkeypatch.setattr(Settler, "settle", settle_later)
    monkeypatch.setattr(GroupClaims, "claim", claim_and_poll_no_more)
    with running_recording_smtp(keep_content=False) as server:
        server.script(Rule("end", wait=0.01))  # longer than the last poll takes

        async def are_sent() -> bool:
            return len(server.copies()) == len(everyone)

        async def is_done() -> bool:
            return (await services.outcomes.counts(message)).pending == 0

        async with sender(services.store, server, tmp_path):
            try:
                await until(are_sent, "all emails are sent")
            finally:
                all_sent.set()
            await until(is_done, "the message is done")
    assert (await check_sum(services, message)).accepted == len(everyone)
