"""The scheduler as it runs, beside the test: what is due, what is done, and what waits for whom."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from postroom.domain.disk_space import SpaceMark
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.pages import SEND_QUEUE, parse_work_item
from postroom.scheduler import Scheduler, completion, leading
from postroom.scheduler.completion import Completion
from postroom.scheduler.fan_out import NO_LIST, NO_SUBSCRIBER, FanOut
from postroom.services import entities
from postroom.services.events import Severity
from postroom.services.messages.message_rows import MessagePart
from postroom.services.messages.sending.page_rows import FREE
from postroom.services.operations.disk_space import SpaceWatch
from postroom.storage import Entity, Store, Value
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import (
    bodies_of,
    days,
    fill,
    make_list,
    now,
    open_refs,
    schedule,
)
from tests.integration.usecases.pages import check_sum, fan_out_whole, settle, use_small_pages
from tests.services.waiting import BUSY


def space_watch(services: Services, folder: Path, mark: SpaceMark) -> SpaceWatch:
    return SpaceWatch(services.space_waits, services.events, [folder], mark)


@asynccontextmanager
async def scheduling(
    store: Store, schedulers: int = 1, space: SpaceWatch | None = None
) -> AsyncIterator[list[Scheduler]]:
    stopping = asyncio.Event()
    made = [Scheduler(Services(store), space=space) for _ in range(schedulers)]
    running = [asyncio.create_task(scheduler.run(stopping)) for scheduler in made]
    try:
        yield made
    finally:
        stopping.set()
        await asyncio.wait_for(asyncio.gather(*running), 60 * BUSY)


async def until(
    services: Services, ref: str, is_so: Callable[[Message], bool], seconds: float = 60
) -> Message:
    deadline = time.monotonic() + BUSY * seconds
    while True:
        message = await services.messages.get(ref)
        if is_so(message):
            return message
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in time: {message}")
        await asyncio.sleep(0.02)


async def test_each_message_is_dealt_with_on_its_own_when_its_time_comes(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leading, "_LOOK_SECONDS", 3600.0)  # it does not find them by polling
    use = services.messages
    name, empty = await make_list(services), await make_list(services, "empty")
    gone = await make_list(services, "gone")
    await fill(store, name, 3)
    long = await schedule(services, name, days(-1))  # nobody sends it: it stays Processing
    nobody = await schedule(services, empty)
    deleted = await schedule(services, gone)
    await services.lists.finish_deletion(gone)
    paused = await schedule(services, name)
    await services.message_states.pause(paused.ref)
    soon = await schedule(services, name, now() + timedelta(seconds=2))
    tomorrow = await schedule(services, name, days(1))
    cancelled = await schedule(services, name, days(2))
    await services.message_states.cancel(cancelled.ref)

    async with scheduling(store, schedulers=2):
        done = await until(services, nobody.ref, lambda m: m.status in FINAL)
        assert (done.status, done.reason) == (MessageStatus.COMPLETED, NO_SUBSCRIBER)
        done = await until(services, deleted.ref, lambda m: m.status in FINAL)
        assert (done.status, done.reason) == (MessageStatus.COMPLETED, NO_LIST)
        assert done.completed_at is not None
        await until(services, long.ref, lambda m: m.status is MessageStatus.PROCESSING)
        for _ in range(3000):
            if cancelled.ref not in await open_refs(services):
                break
            await asyncio.sleep(0.02)
        begun = await until(services, soon.ref, lambda m: m.status is not MessageStatus.PENDING)
        assert begun.queued_at is None or begun.queued_at >= soon.due_at
        await until(services, soon.ref, lambda m: m.status is MessageStatus.PROCESSING)
        # It can be sent, and completes, though an earlier one is not done.
        current = await use.get(soon.ref)
        await settle(services, current, 0, [EmailOutcome.ACCEPTED] * 3)
        await until(services, soon.ref, lambda m: m.status is MessageStatus.COMPLETED)
        assert (await use.get(paused.ref)).status is MessageStatus.PAUSED
        assert (await use.get(tomorrow.ref)).status is MessageStatus.PENDING
        assert (await use.get(long.ref)).status is MessageStatus.PROCESSING
        await services.message_states.resume(paused.ref)
        await until(services, paused.ref, lambda m: m.status is MessageStatus.PROCESSING)

    assert cancelled.ref not in await open_refs(services), "cancelled before its time"
    assert {m.ref for m in (await use.slice(MessagePart.DONE)).messages} >= {
        cancelled.ref,
        nobody.ref,
    }
    items = [parse_work_item(body) for body in await bodies_of(store, SEND_QUEUE)]
    assert sorted(item.ref for item in items) == sorted([long.ref, soon.ref, paused.ref])


async def test_without_disk_space_no_message_starts_and_that_is_not_a_stall(
    services: Services, store: Store, tmp_path: Path
) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    started = [await schedule(services, name) for _ in range(2)]
    async with scheduling(store):
        for message in started:
            await until(services, message.ref, lambda m: m.status is MessageStatus.PROCESSING)
    waiting = await schedule(services, name)
    for message in started:  # the second scheduler continues the wait that the first one found
        too_little = space_watch(services, tmp_path, SpaceMark(size=10**18))
        async with scheduling(store, space=too_little) as [scheduler]:
            current = await services.messages.get(message.ref)
            await settle(services, current, 0, [EmailOutcome.ACCEPTED] * 3)
            # It completes, so the scheduler has looked at the disk and at every open message.
            await until(services, message.ref, lambda m: m.status is MessageStatus.COMPLETED)
            wait = await services.space_waits.current()
            assert wait is not None
            assert str(wait).startswith("Waiting for disk space: ")
            if message is started[-1]:  # nothing is left to do but to wait, which is no stall
                await until(
                    services,
                    waiting.ref,
                    lambda _, scheduler=scheduler: "working on messages" not in scheduler.doing(),  # type: ignore[misc]
                )
        assert (await services.messages.get(waiting.ref)).status is MessageStatus.PENDING
    async with scheduling(store, space=space_watch(services, tmp_path, SpaceMark())):
        await until(services, waiting.ref, lambda m: m.status is MessageStatus.PROCESSING)
    assert await services.space_waits.current() is None
    found = (await services.events.slice()).events
    events = [each.severity for each in found if not each.subject]  # none of a message
    assert events == [Severity.INFO, Severity.WARNING]


async def test_a_message_postponed_at_the_last_moment_is_not_started(
    services: Services, store: Store
) -> None:
    await make_list(services)
    message = await schedule(services)
    await services.messages.edit(message.ref, scheduled_at=days(7))
    await Scheduler(Services(store))._advance(message.ref)
    assert (await services.messages.get(message.ref)).status is MessageStatus.PENDING


async def test_a_message_is_complete_only_when_nothing_is_pending_or_in_doubt(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=2, pages=3)
    name = await make_list(services)
    made = await fill(store, name, 5)
    message = await fan_out_whole(store, (await schedule(services)).ref)
    completion = Completion(services)

    assert not await completion.check(message)
    await settle(services, message, 2, [EmailOutcome.REFUSED])
    await settle(services, message, 0, [EmailOutcome.ACCEPTED, EmailOutcome.IN_DOUBT])
    assert not await completion.check(message)
    await settle(services, message, 1, [EmailOutcome.SUPPRESSED])
    assert (await check_sum(services, message)).pending == 1
    assert not await completion.check(message)
    await settle(services, message, 1, [EmailOutcome.ACCEPTED])
    counts = await check_sum(services, message)
    assert (counts.pending, counts.in_doubt) == (0, 1)
    assert not await completion.check(message), "somebody has to decide"
    await services.in_doubt.decide(message, made[1].address, was_sent=True)
    assert await completion.check(message)
    done = await services.messages.get(message.ref)
    assert done.status is MessageStatus.COMPLETED
    assert done.completed_at is not None
    assert (await check_sum(services, done)).as_dict() == {
        "planned": 5,
        "pending": 0,
        "accepted": 3,
        "refused": 1,
        "suppressed": 1,
        "in_doubt": 0,
        "possible_duplicates": 0,
        "deferred": 0,
    }


async def test_a_completion_that_is_interrupted_anywhere_is_finished_by_the_next(
    services: Services, store: Store
) -> None:
    await make_list(services)

    async def attempt(fate: Fate, writes: int) -> None:
        message = await fan_out_whole(store, (await schedule(services)).ref)
        other = Services(Fated(store, fate))
        await dies(Completion(other).check(message))
        current = await services.messages.get(message.ref)
        completion = Completion(services)
        assert await completion.check(current)
        assert (await services.messages.get(message.ref)).status is MessageStatus.COMPLETED
        assert await open_refs(services) == []

    assert await cut_after_each_write(attempt) == 6  # the event among them


async def test_parked_pages_resume_after_a_pause_and_a_cancelled_message_ends_its_open_ones(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=2, pages=3)
    name = await make_list(services)
    await fill(store, name, 6)
    message = await fan_out_whole(store, (await schedule(services)).ref)
    await bodies_of(store, SEND_QUEUE)
    pages = store.table(entities.PAGES)
    partition = entities.pages_partition(message.day, message.ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 2)
    await pages.merge(Entity(partition, "000001", {"Parked": True}))

    async def put_back(fate: Fate, writes: int) -> None:
        other = Services(Fated(store, fate))
        await dies(Completion(other).put_back(message))

    await cut_after_each_write(put_back)
    items = set(await bodies_of(store, SEND_QUEUE))
    assert items == {f"{partition},000001,1"}
    page = await pages.get(partition, "000001")
    assert page is not None
    assert page.properties["Parked"] is False

    cancelled = await services.message_states.cancel(message.ref)
    completion = Completion(services)
    await completion.put_back(cancelled)
    assert set(await bodies_of(store, SEND_QUEUE)) == {
        f"{partition},000001,1",
        f"{partition},000002,1",
    }
    assert not await completion.check(cancelled)
    for number in (1, 2):
        await settle(services, cancelled, number, [EmailOutcome.SUPPRESSED] * 2)
    assert await completion.check(cancelled)
    assert (await services.messages.get(message.ref)).status is MessageStatus.CANCELLED


async def test_pages_whose_work_items_were_lost_get_new_ones(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=2, pages=6)
    monkeypatch.setattr(completion, "_PARKED_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(completion, "_LOST_AFTER", timedelta(0))
    name = await make_list(services)
    await fill(store, name, 12)
    message = await fan_out_whole(store, (await schedule(services)).ref)
    pages = store.table(entities.PAGES)
    partition = entities.pages_partition(message.day, message.ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 2)
    changes: dict[str, dict[str, Value]] = {
        "000001": {"Owner": "a sender", "ClaimedUntil": now() + timedelta(minutes=1)},
        "000002": {"WaitsUntil": now() + timedelta(hours=1)},
        "000003": {"Owner": "gone", "ClaimedUntil": now() - timedelta(minutes=1)},
        "000004": {"WaitsUntil": now() - timedelta(minutes=1)},
    }
    for row, change in changes.items():
        await pages.merge(Entity(partition, row, change))
    lost = {f"{partition},00000{number},1" for number in (3, 4, 5)}

    checking = Completion(services)
    for _ in range(3):  # there is something to receive, so nothing is lost
        assert not await checking.check(message)
    assert len(await bodies_of(store, SEND_QUEUE)) == 6  # which are lost now
    assert not await checking.check(message)
    assert await bodies_of(store, SEND_QUEUE) == []  # they may be on their way
    assert not await checking.check(message)
    assert set(await bodies_of(store, SEND_QUEUE)) == lost


async def test_the_first_messages_after_a_start_wait_for_nothing(
    services: Services, store: Store
) -> None:
    working = FanOut(services)
    claims = await asyncio.gather(*(working._first_claim() for _ in range(3)))
    assert claims == [FREE] * 3
