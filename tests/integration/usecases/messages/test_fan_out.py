"""Fan-out, interrupted after every single write, and by others: nobody twice, nobody left out."""

import asyncio

import msgspec
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.scheduler.fan_out import NO_LIST, NO_SUBSCRIBER, FanOut, Superseded
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.storage import Insert, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import address_of, fill, make_list, schedule
from tests.integration.usecases.pages import check_pages, fan_out_whole, settle, use_small_pages


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, size=10, pages=3)


@pytest.fixture
def stride(engine: str) -> int:
    """On Azure every third interruption is enough to see that it is no different there."""
    return 3 if engine == "azure" else 1


async def test_fan_out_interrupted_after_any_write_makes_every_page_once(
    services: Services, store: Store, stride: int
) -> None:
    name = await make_list(services)
    wanted = [each.address for each in await fill(store, name, 65)]

    async def attempt(fate: Fate, writes: int) -> None:
        message = await schedule(services)
        died = await dies(fan_out_whole(Fated(store, fate), message.ref))
        done = await fan_out_whole(store, message.ref)
        assert await check_pages(store, done) == wanted
        assert done.queued_pages == 7
        assert died == fate.is_dead

    # Begin, three windows of (their pages, 3+3+1 items, progress), end.
    needed = await cut_after_each_write(attempt, stride=stride)
    assert needed >= 1 + 3 * 2 + 7 + 1


async def test_fan_out_ends_even_if_it_is_interrupted_again_and_again(
    services: Services, store: Store, stride: int
) -> None:
    name = await make_list(services)
    wanted = [each.address for each in await fill(store, name, 65)]
    for writes in (8, 9, 11)[::stride]:
        message = await schedule(services)
        for _ in range(60):
            if not await dies(fan_out_whole(Fated(store, Fate(writes)), message.ref)):
                break
        done = await services.messages.get(message.ref)
        assert await check_pages(store, done) == wanted


async def test_subscribers_who_come_and_go_meanwhile_displace_nobody(
    services: Services, store: Store, stride: int
) -> None:
    use = services.subscriptions
    other = await make_list(services, "other")

    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        await fill(store, name, 42)
        for number in (4, 14, 24):
            await use.edit(name, address_of(number), verified=False)
        await use.edit(name, address_of(5), blocked="complained")
        message = await schedule(services, name)
        before = {s.address async for s in use.all(name) if s.may_receive}

        died = await dies(fan_out_whole(Fated(store, fate), message.ref))

        gone = {address_of(number) for number in (13, 35)}
        for each in gone:
            await use.remove(name, each)
        await use.edit(name, address_of(36), blocked="complained")
        for number in (4, 14, 24):
            await use.edit(name, address_of(number), verified=True)
        await use.edit(name, address_of(5), blocked="")
        await come(store, name, ["user000000a", "user000012a", "user000027a", "zoe"])
        await use.add(other, "user000007b@example.com", verified=True)
        await use.move(other, "user000007b@example.com", name)
        after = {s.address async for s in use.all(name) if s.may_receive}

        done = await fan_out_whole(store, message.ref)
        made = set(await check_pages(store, done))
        assert before & after <= made, "somebody was left out"
        assert made <= before | after
        if died and writes <= 1:
            assert made == after
        if not died:
            assert made == before

    await cut_after_each_write(attempt, stride=2 * stride - 1)


async def come(store: Store, name: ListName, locals_: list[str]) -> None:
    for each in locals_:
        new = new_subscriber(name, Address(f"{each}@example.com"), verified=True)
        rows = [Insert(entities.subscriber_entity(new)), Insert(entities.lookup_entity(new))]
        await store.table(entities.LISTS).apply(rows)


async def test_two_fan_outs_at_once_make_every_page_once(
    services: Services, store: Store, stride: int
) -> None:
    """One is overtaken, before each of its writes, by another one that goes all the way."""
    name = await make_list(services)
    wanted = [each.address for each in await fill(store, name, 45)]
    superseded = 0
    for write in range(2, 22, stride):
        message = await schedule(services)
        fate = Fate(before={write: lambda ref=message.ref: fan_out_whole(store, ref)})  # type: ignore[misc]
        try:
            await fan_out_whole(Fated(store, fate), message.ref)
        except Superseded:
            superseded += 1
        done = await fan_out_whole(store, message.ref)
        assert await check_pages(store, done) == wanted
    assert superseded > 0
    for _ in range(3):
        message = await schedule(services)
        begun = await FanOut(Services(store)).begin(message)
        results = await asyncio.gather(
            *(fan_out_whole(store, begun.ref) for _ in range(3)), return_exceptions=True
        )
        assert all(r is not None and not _unexpected(r) for r in results), results
        done = await fan_out_whole(store, message.ref)
        assert await check_pages(store, done) == wanted


def _unexpected(result: object) -> bool:
    return isinstance(result, Exception) and not isinstance(result, Superseded)


async def test_only_one_begins_a_message(services: Services, store: Store) -> None:
    await make_list(services)
    message = await schedule(services)
    results = await asyncio.gather(
        *(FanOut(Services(store)).begin(message) for _ in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Superseded) for each in results) == 3


async def test_a_page_that_a_sender_has_finished_is_not_created_again(
    services: Services, store: Store
) -> None:
    """It was queued, sent and settled before the scheduler died without having said so."""
    name = await make_list(services)
    wanted = [each.address for each in await fill(store, name, 30)]
    message = await schedule(services)
    # Queuing, the pages, their work items; not how many are queued.
    assert await dies(fan_out_whole(Fated(store, Fate(3)), message.ref))
    current = await services.messages.get(message.ref)
    assert current.queued_pages == 0
    await settle(services, current, 0, [EmailOutcome.ACCEPTED] * 10)
    await settle(services, current, 1, [EmailOutcome.ACCEPTED] * 4)

    done = await fan_out_whole(store, message.ref)

    counts = await services.outcomes.counts(done)
    assert (counts.planned, counts.accepted, counts.pending) == (30, 14, 16)
    records_found = [r async for r in services.outcomes.emails(done)]
    assert [r.address for r in records_found] == wanted


async def test_fan_out_stops_when_paused_or_cancelled_and_continues_where_it_was(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    wanted = [each.address for each in await fill(store, name, 45)]
    for write in (2, 3, 5, 7):
        message = await schedule(services)
        fate = Fate(before={write: lambda ref=message.ref: services.message_states.pause(ref)})  # type: ignore[misc]
        with pytest.raises(Superseded):
            await fan_out_whole(Fated(store, fate), message.ref)
        paused = await services.messages.get(message.ref)
        assert (paused.status, paused.paused_from) == (MessageStatus.PAUSED, MessageStatus.QUEUING)
        resumed = await services.message_states.resume(message.ref)
        assert resumed.status is MessageStatus.QUEUING
        assert await check_pages(store, await fan_out_whole(store, message.ref)) == wanted


async def test_a_message_to_an_empty_list_has_an_explicit_reason(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, "unverified@example.com")
    empty = await fan_out_whole(store, (await schedule(services)).ref)
    assert (empty.status, empty.reason) == (MessageStatus.PROCESSING, NO_SUBSCRIBER)
    await services.subscriptions.add(name, "blocked@example.com", verified=True)
    await services.subscriptions.edit(name, "blocked@example.com", blocked="x")
    assert (await fan_out_whole(store, (await schedule(services)).ref)).reason == NO_SUBSCRIBER

    message = await schedule(services)
    await services.lists.finish_deletion(name)
    begun = await FanOut(Services(store)).begin(message)
    assert begun.reason == NO_LIST
    # Paused, the list recreated, resumed: the message was for the list that is gone.
    await services.message_states.pause(message.ref)
    await make_list(services)
    await services.subscriptions.add(name, "new@example.com", verified=True)
    await services.message_states.resume(message.ref)
    done = await fan_out_whole(store, message.ref)
    assert (done.reason, done.queued_pages) == (NO_LIST, 0)


async def test_what_a_list_says_is_taken_when_the_message_is_queued(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 1)
    message = await schedule(services)
    await services.lists.edit(
        name,
        description="Late words",
        from_address="late@contoso.example",
        language="ko",
        postal_address="1 Main Street\nDublin",
        reply_to="office@contoso.example",
        headers="X-Team: Press",
    )
    queued = await fan_out_whole(store, message.ref)
    await services.lists.edit(name, description="Too late", language="fr", postal_address="")
    assert (queued.list_description, queued.from_address) == ("Late words", "late@contoso.example")
    assert (queued.list_language, queued.list_postal_address) == ("ko", "1 Main Street\nDublin")
    assert (queued.list_reply_to, queued.list_headers) == (
        "office@contoso.example",
        "X-Team: Press",
    )
    assert queued.queued_at is not None
    assert msgspec.structs.replace(queued, etag="") == msgspec.structs.replace(
        await services.messages.get(message.ref), etag=""
    )
