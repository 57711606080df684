"""What a sender does when the store's mark is behind."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.scheduler import fan_out
from postroom.sender.faults.lost_history import LostHistory
from postroom.sender.journal.journal import Journal
from postroom.sender.journal.recovery import Recovery
from postroom.sender.journal.sent_log import SentLog
from postroom.sender.pages.claims import Claims, PageTaken
from postroom.sender.sender_settings import SenderSettings
from postroom.services.events import Severity
from postroom.services.messages.sending.page_rows import Page
from postroom.services.operations.store_history import StoreHistory
from postroom.storage import Entity, KeyRange, Server, Store
from postroom.transport.contract import Result, ResultKind
from postroom.wiring import Services
from tests.integration.usecases.making import fill, make_list, schedule
from tests.integration.usecases.pages import check_sum, fan_out_whole


async def set_back(store: Store, by: timedelta) -> None:
    """Set the mark back, as in a store that has lost so much."""
    table = store.table("storeinfo")
    [mark] = (await table.query(KeyRange.only("marks"))).entities
    await table.upsert(Entity(mark.partition, mark.row, {"At": datetime.now(UTC) - by}))


@pytest.mark.parametrize(
    ("missing", "status"), [(20, MessageStatus.PROCESSING), (80, MessageStatus.PAUSED)]
)
async def test_messages_pause_if_the_store_has_lost_more_than_senders_remember(
    services: Services, store: Store, tmp_path: Path, missing: int, status: MessageStatus
) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    history = StoreHistory(Services(store), tmp_path)
    settings = SenderSettings("http://localhost", tmp_path / "journals")
    lost = LostHistory(Services(store), "me", settings, history, lambda _: False)
    assert await history.advance()
    await lost.watch(is_behind=False)
    assert await lost.free_at() is None

    await set_back(store, timedelta(seconds=missing))
    assert not await history.advance()
    await lost.watch(is_behind=True)

    found = await services.messages.get(message.ref)
    assert found.status is status
    assert await lost.free_at() is not None
    assert ("Resume to send it to everyone who has no record" in found.reason) is (missing > 60)
    lost.close()


async def test_a_change_of_servers_is_recorded_and_reported_once(
    services: Services, store: Store, tmp_path: Path
) -> None:
    first, restarted = Server("system 1, timeline 1", "1"), Server("system 1, timeline 1", "2")
    promoted = Server("system 1, timeline 2", "3")
    history = StoreHistory(Services(store), tmp_path)
    assert await history.server() is None
    for server in (first, restarted, promoted, promoted):
        await history.record_server(server)
        assert await history.server() == server
    [event] = (await services.events.slice(least=Severity.WARNING)).events
    assert "timeline 1 before" in event.text
    assert "timeline 2 now" in event.text


async def test_a_page_that_is_created_again_after_a_failover_waits_for_senders_that_remember_it(
    services: Services, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await make_list(services)
    readers = [each.address for each in await fill(store, name, 3)]
    old, new = Server("system 1, timeline 1", "1"), Server("system 1, timeline 2", "2")
    await StoreHistory(services, tmp_path).record_server(old)
    monkeypatch.setattr(type(store), "server", new)
    due = await schedule(services, name)
    item = WorkItem(due.day, due.ref, 0)
    settings = SenderSettings("http://localhost", tmp_path / "journals")
    lost = LostHistory(services, "me", settings, None, lambda _: False)
    lost.remember(item, {readers[1]})
    lost.suspect(item)

    message = await fan_out_whole(store, due.ref)
    other = Claims(services.pages, "other", 60.0)
    assert isinstance((await other.take([item]))[item], PageTaken)
    await lost.watch(is_behind=False)

    page = (await other.take([item]))[item]
    assert isinstance(page, Page)
    assert [state.was_in_doubt for _, state in page.emails] == [False, True, False]
    assert (await check_sum(services, message)).pending == 3
    lost.close()


async def test_a_page_that_no_sender_remembers_has_no_email_in_doubt(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    await StoreHistory(services, tmp_path).record_server(Server("system 1, timeline 1", "1"))
    monkeypatch.setattr(type(store), "server", Server("system 1, timeline 2", "2"))
    monkeypatch.setattr(fan_out, "_SENDERS_COMPARE", timedelta(0))
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    item = WorkItem(message.day, message.ref, 0)
    page = (await Claims(services.pages, "other", 60.0).take([item]))[item]
    assert isinstance(page, Page)
    assert not page.claim.doubtful


async def test_emails_whose_dead_sender_has_lost_its_claim_are_in_doubt_for_every_sender(
    services: Services, store: Store, tmp_path: Path
) -> None:
    """Its journal alone says that one was handed over: a failover has undone the claim."""
    name = await make_list(services)
    readers = [each.address for each in await fill(store, name, 3)]
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    item = WorkItem(message.day, message.ref, 0)
    settings = SenderSettings("http://localhost", tmp_path)
    lost = LostHistory(services, "me", settings, None, lambda _: False)
    await lost.watch(is_behind=False)  # the change of servers was noticed before the journal
    journal = Journal(tmp_path, "dead")
    [work] = await store.queue(SEND_QUEUE).receive(1, lease=60.0)
    journal.page_taken(item.partition, work.id, work.receipt, work.body)
    journal.sending(item.partition, readers).handing_over(1)
    journal.close()

    recovery = Recovery(services, settings.retry, settings.in_doubt, lost.remember, lost.suspect)
    await recovery.settle_dead_senders(tmp_path)
    await lost.watch(is_behind=False)

    page = (await Claims(services.pages, "other", 60.0).take([item]))[item]
    assert isinstance(page, Page)
    assert [state.was_in_doubt for _, state in page.emails] == [False, True, False]
    assert (await check_sum(services, message)).pending == 3
    lost.close()


async def test_a_dead_senders_claim_is_left_until_its_journal_is_settled(
    services: Services, store: Store, tmp_path: Path
) -> None:
    """A page that one dead sender no longer owns may be claimed by another dead one, whose journal
    alone knows what was sent since."""
    name = await make_list(services)
    readers = [each.address for each in await fill(store, name, 3)]
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    item = WorkItem(message.day, message.ref, 0)
    settings = SenderSettings("http://localhost", tmp_path)
    lost = LostHistory(services, "me", settings, None, lambda _: False)
    await lost.watch(is_behind=False)
    log = SentLog(tmp_path, "dead")
    log.add(store.server, WorkItem(message.day, message.ref, 1), {readers[2]})
    log.close()
    journal = Journal(tmp_path, "dead")
    [work] = await store.queue(SEND_QUEUE).receive(1, lease=60.0)
    assert isinstance((await Claims(services.pages, "dead", 60.0).take([item]))[item], Page)
    journal.page_taken(item.partition, work.id, work.receipt, work.body)
    watcher = journal.sending(item.partition, readers)
    watcher.handing_over(1)
    watcher.settled(1, Result(ResultKind.ACCEPTED, "250 queued"))
    journal.close()

    lost.adopt()
    lost.remember(item, {readers[0]})  # from the journal of a sender that died earlier
    lost.suspect(item)
    await lost.watch(is_behind=False)
    recovery = Recovery(services, settings.retry, settings.in_doubt, lost.remember, lost.suspect)
    await recovery.settle_dead_senders(tmp_path)
    await lost.watch(is_behind=False)

    page = (await Claims(services.pages, "other", 60.0).take([item]))[item]
    assert isinstance(page, Page)
    outcomes = [state.outcome for _, state in page.emails]
    assert outcomes == [EmailOutcome.PENDING, EmailOutcome.ACCEPTED, EmailOutcome.PENDING]
    assert [state.was_in_doubt for _, state in page.emails] == [True, False, False]
    lost.close()
