"""Queues: at least once, in order, under a lease."""

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta

import pytest

from postroom.storage import InvalidValue, LeaseLost, MessageToPut, Queue, Store

# Engines may round delays up to whole seconds, and polling looks at most every two.
A_MOMENT = 20.0


@pytest.fixture
def queue(store: Store) -> Queue:
    return store.queue("mail/send")


async def receive_within(queue: Queue, seconds: float) -> list[str]:
    """The bodies that can be received now or soon."""
    await queue.wait(seconds)
    return [m.body for m in await queue.receive(32, lease=30)]


async def test_a_message_is_received_once_and_deleted(queue: Queue) -> None:
    before = datetime.now(UTC)
    identity = await queue.put("2012-10-15,634852858215726983,000042,0")
    [message] = await queue.receive(lease=30)
    assert message.id == identity
    assert message.queue == "mail/send"
    assert message.body == "2012-10-15,634852858215726983,000042,0"
    assert message.dequeue_count == 1
    assert message.properties == {}
    assert abs(message.enqueued_at - before) < timedelta(seconds=60)
    assert await queue.receive(lease=30) == []
    await queue.delete(message)
    assert (await queue.info()).length == 0


async def test_a_queue_that_was_never_written_is_empty(queue: Queue, store: Store) -> None:
    assert await queue.receive(lease=5) == []
    assert await queue.peek() == []
    assert not await queue.wait(0)
    info = await queue.info()
    assert (info.name, info.length, info.oldest) == ("mail/send", 0, None)
    await queue.purge()
    await queue.drop()
    assert await store.queues() == []


async def test_messages_come_in_the_order_of_their_arrival(queue: Queue) -> None:
    for start in range(0, 60, 20):
        await queue.put_many([str(number) for number in range(start, start + 20)])
    await queue.put("60")
    received = []
    for _ in range(10):
        batch = await queue.receive(7, lease=60)
        received += [m.body for m in batch]
        for message in batch:
            await queue.delete(message)
    assert received == [str(number) for number in range(61)]


BODIES = ["", " ", "x" * 48_000, "한" * 16_000, "<a>&amp;</a>", "line\r\nline\x01\x1f", "🎉\u2028"]


async def test_a_body_is_read_as_it_was_written(queue: Queue) -> None:
    for body in BODIES:
        await queue.put(body)
        assert (await queue.peek())[0].body == body
        [message] = await queue.receive(lease=30)
        assert message.body == body


async def test_properties_travel_with_a_message(queue: Queue) -> None:
    properties = {"cycle": "2", "reply to": "ann's <queue>", "한": "🎉\n"}
    await queue.put("body", properties=properties)
    [message] = await queue.receive(lease=30)
    assert message.body == "body"
    assert message.properties == properties
    await queue.release(message, count_attempt=False)
    [message] = await queue.receive(lease=30)
    assert message.properties == properties


async def test_receiving_takes_no_more_than_the_limit(queue: Queue) -> None:
    await queue.put_many(["a", "b", "c"])
    assert [m.body for m in await queue.receive(2, lease=30)] == ["a", "b"]
    assert [m.body for m in await queue.receive(2, lease=30)] == ["c"]


async def test_peeking_changes_nothing(queue: Queue) -> None:
    await queue.put_many(["a", "b", "c"])
    for _ in range(2):
        assert [(m.body, m.dequeue_count, m.receipt) for m in await queue.peek(2)] == [
            ("a", 0, ""),
            ("b", 0, ""),
        ]
    [message] = await queue.receive(lease=30)
    assert (message.body, message.dequeue_count) == ("a", 1)
    assert [m.body for m in await queue.peek(32)] == ["b", "c"]


async def test_a_delayed_message_waits_for_its_time(queue: Queue) -> None:
    started = time.monotonic()
    await queue.put("later", delay=4)
    await queue.put("now")
    assert [m.body for m in await queue.receive(10, lease=30)] == ["now"]
    assert (await queue.info()).length == 2
    assert await receive_within(queue, 4 + A_MOMENT) == ["later"]
    assert time.monotonic() - started > 3.9


async def test_an_expired_message_is_never_received(queue: Queue) -> None:
    await queue.put_many([MessageToPut("gone", ttl=1), MessageToPut("stays", ttl=60), "for ever"])
    await asyncio.sleep(2.1)
    assert [m.body for m in await queue.peek(10)] == ["stays", "for ever"]
    assert [m.body for m in await queue.receive(10, lease=30)] == ["stays", "for ever"]


# Azure counts them until it has swept them out, in its own time.
@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
async def test_an_expired_message_is_not_counted_though_nobody_has_looked_for_it(
    queue: Queue, store: Store
) -> None:
    await queue.put_many([MessageToPut("gone", ttl=1), MessageToPut("stays", ttl=60), "for ever"])
    await asyncio.sleep(1.1)
    assert (await queue.info()).length == 2
    assert [each.length for each in await store.queues()] == [2]
    assert [each.message.body for each in await queue.browse()] == ["stays", "for ever"]


async def test_a_lease_that_runs_out_gives_the_message_to_another_and_the_late_delete_fails(
    queue: Queue, other_store: Store
) -> None:
    other = other_store.queue("mail/send")
    await queue.put("slow")
    [mine] = await queue.receive(lease=4)
    assert await other.receive(lease=30) == []
    assert await other.wait(4 + A_MOMENT)
    [theirs] = await other.receive(lease=30)
    assert theirs.id == mine.id
    assert theirs.dequeue_count == 2
    with pytest.raises(LeaseLost):
        await queue.delete(mine)
    with pytest.raises(LeaseLost):
        await queue.renew(mine, lease=30)
    with pytest.raises(LeaseLost):
        await queue.release(mine)
    assert await queue.receive(lease=30) == []
    await other.delete(theirs)
    with pytest.raises(LeaseLost):
        await queue.delete(mine)
    assert (await queue.info()).length == 0


async def test_a_message_cannot_be_deleted_twice(queue: Queue) -> None:
    await queue.put("once")
    [message] = await queue.receive(lease=30)
    await queue.delete(message)
    with pytest.raises(LeaseLost, match="mail/send"):
        await queue.delete(message)


async def test_a_lease_that_ran_out_still_counts_while_nobody_took_the_message(
    queue: Queue,
) -> None:
    await queue.put("alone")
    [message] = await queue.receive(lease=1)
    await asyncio.sleep(1.5)
    message = await queue.renew(message, lease=30)
    assert await queue.receive(lease=30) == []
    await queue.delete(message)


async def test_a_renewed_lease_holds_longer(queue: Queue) -> None:
    await queue.put("long work")
    [message] = await queue.receive(lease=2)
    message = await queue.renew(message, lease=30)
    await asyncio.sleep(2.2)
    assert await queue.receive(lease=30) == []
    assert message.dequeue_count == 1
    await queue.delete(message)


async def test_a_released_message_is_ready_at_once_and_counts(queue: Queue) -> None:
    await queue.put("again")
    for attempt in (1, 2, 3):
        [message] = await queue.receive(lease=30)
        assert message.dequeue_count == attempt
        await queue.release(message)
    assert (await queue.peek())[0].dequeue_count == 3


async def test_a_release_without_counting_takes_the_attempt_back(queue: Queue) -> None:
    await queue.put("again")
    [message] = await queue.receive(lease=30)
    await queue.release(message)
    for _ in range(3):
        [message] = await queue.receive(lease=30)
        assert message.dequeue_count == 2
        await queue.release(message, count_attempt=False)
    [message] = await queue.receive(lease=30)
    assert message.dequeue_count == 2
    assert message.body == "again"


async def test_a_release_ends_the_lease(queue: Queue) -> None:
    await queue.put("given back")
    [message] = await queue.receive(lease=30)
    await queue.release(message)
    [again] = await queue.receive(lease=30)
    with pytest.raises(LeaseLost):
        await queue.delete(message)
    await queue.delete(again)


async def test_a_message_can_be_released_for_later(queue: Queue) -> None:
    await queue.put("not now")
    [message] = await queue.receive(lease=30)
    await queue.release(message, delay=2)
    assert await queue.receive(lease=30) == []
    assert await receive_within(queue, 2 + A_MOMENT) == ["not now"]


async def test_two_receivers_never_get_the_same_message(queue: Queue, other_store: Store) -> None:
    await queue.put_many([str(number) for number in range(60)])
    other = other_store.queue("mail/send")

    async def take_all(which: Queue) -> list[str]:
        taken: list[str] = []
        while batch := await which.receive(5, lease=60):
            taken += [m.body for m in batch]
        return taken

    taken = await asyncio.gather(take_all(queue), take_all(other), take_all(queue))
    assert sorted(itertools.chain(*taken), key=int) == [str(number) for number in range(60)]


async def test_waiting_ends_when_another_process_puts(queue: Queue, other_store: Store) -> None:
    waiting = asyncio.create_task(queue.wait(60))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await other_store.queue("other").put("does not count")
    await asyncio.sleep(0.3)
    assert not waiting.done()
    started = time.monotonic()
    await other_store.queue("mail/send").put("hello")
    assert await waiting
    assert time.monotonic() - started < 2 * A_MOMENT


async def test_waiting_ends_with_its_time(queue: Queue) -> None:
    started = time.monotonic()
    assert not await queue.wait(0.3)
    assert 0.25 < time.monotonic() - started < 2 * A_MOMENT


async def test_waiting_does_not_wait_when_a_message_is_ready(queue: Queue) -> None:
    await queue.put("here")
    started = time.monotonic()
    assert await queue.wait(30)
    assert time.monotonic() - started < A_MOMENT


async def test_a_leased_message_does_not_end_the_waiting(queue: Queue) -> None:
    await queue.put("taken")
    await queue.receive(lease=30)
    assert not await queue.wait(0.3)


async def test_one_can_wait_for_several_queues_or_for_all(store: Store, other_store: Store) -> None:
    waiting = [
        asyncio.create_task(store.wait_for_messages(["a", "b"], timeout=60)),
        asyncio.create_task(store.wait_for_messages(timeout=60)),
    ]
    await asyncio.sleep(0.2)
    await other_store.queue("b").put("made while they waited")
    assert await asyncio.gather(*waiting) == [{"b"}, {"b"}]
    await other_store.queue("c;retry").put("x")
    assert await store.wait_for_messages(["a", "b"], timeout=5) == {"b"}
    assert await store.wait_for_messages(timeout=5) == {"b", "c;retry"}
    assert await store.wait_for_messages(["a"], timeout=0.2) == frozenset()
    assert await store.wait_for_messages([], timeout=0.1) == frozenset()


async def test_the_length_counts_all_and_the_oldest_is_the_next(queue: Queue) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    await queue.put("first")
    await queue.put("second")
    await queue.put("later", delay=60)
    info = await queue.info()
    assert info.length == 3
    assert info.oldest is not None
    assert before < info.oldest < before + timedelta(seconds=120)
    await queue.receive(2, lease=30)
    info = await queue.info()
    assert (info.length, info.oldest) == (3, None)


NAMES = [
    "mail/send",
    "mail/confirm",
    "msmqWebHost/orderProcessing/service.svc",
    "msmqwebhost/orderprocessing/service.svc",
    "shop/orders;retry",
    "shop/orders;poison",
    "a",
    "z",
    "UPPER lower 한국어 🎉",
    "--",
    "/",
    "mailz2fsend",
    "x" * 255,
    "x" * 254 + "y",
    "한" * 255,
]


async def test_every_queue_name_is_accepted_kept_apart_and_shown_as_it_is(store: Store) -> None:
    for name in NAMES:
        await store.queue(name).put(name)
    assert [info.name for info in await store.queues()] == sorted(NAMES)
    for name in NAMES:
        [message] = await store.queue(name).receive(lease=30)
        assert (message.body, message.queue) == (name, name)
    lengths = {info.name: info.length for info in await store.queues()}
    assert lengths == dict.fromkeys(NAMES, 1)


async def test_a_purged_queue_is_empty_and_still_there(queue: Queue, store: Store) -> None:
    await queue.put_many(["a", "b", "c"])
    await queue.receive(lease=30)
    await queue.purge()
    assert (await queue.info()).length == 0
    assert [info.name for info in await store.queues()] == ["mail/send"]


async def test_a_dropped_queue_is_gone_until_it_is_used_again(queue: Queue, store: Store) -> None:
    await store.queue("other").put("stays")
    await queue.put("lost")
    await queue.drop()
    assert [info.name for info in await store.queues()] == ["other"]
    await queue.put("new")
    assert [m.body for m in await queue.receive(10, lease=30)] == ["new"]


async def test_putting_nothing_puts_nothing(queue: Queue, store: Store) -> None:
    assert await queue.put_many([]) == []
    assert (await queue.info()).length == 0


async def test_a_thousand_messages_can_be_put_in_one_go(queue: Queue, engine: str) -> None:
    count = 100 if engine == "azure" else 1000
    identities = await queue.put_many([str(number) for number in range(count)])
    assert len(set(identities)) == count
    assert (await queue.info()).length == count


async def test_a_queue_is_browsed_in_portions_and_nothing_changes(queue: Queue) -> None:
    identities = await queue.put_many([f"m{n}" for n in range(7)])
    found: list[str] = []
    after: str | None = None
    for _ in range(10):
        portion = await queue.browse(3, after=after)
        found += [each.message.id for each in portion]
        if len(portion) < 3:
            break
        after = portion[-1].message.id
    assert found == identities
    assert await queue.browse(3, after=identities[-1]) == []
    [first] = await queue.browse(1)
    assert (first.message.body, first.message.dequeue_count, first.message.receipt) == ("m0", 0, "")
    [received] = await queue.receive(lease=30)
    assert (received.id, received.dequeue_count) == (identities[0], 1)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
async def test_browsing_shows_delayed_and_leased_messages_and_continues_after_deleted_ones(
    queue: Queue,
) -> None:
    await queue.put_many(["leased", MessageToPut("delayed", delay=3600), "ready"])
    [leased] = await queue.receive(lease=1800)
    now = datetime.now(UTC)
    found = await queue.browse()
    assert [each.message.body for each in found] == ["leased", "delayed", "ready"]
    assert [each.ready_at > now for each in found] == [True, True, False]
    await queue.delete(leased)
    behind = await queue.browse(after=leased.id)
    assert [each.message.body for each in behind] == ["delayed", "ready"]
    for nonsense in ("", "-1", "nonsense", "9" * 30):
        with pytest.raises(InvalidValue):
            await queue.browse(after=nonsense)


async def test_a_scan_shows_every_message_and_changes_nothing(queue: Queue, engine: str) -> None:
    await queue.put_many([f"m{n}" for n in range(70)])
    await queue.put("with properties", properties={"a": "b"}, ttl=3600)
    found = [each async for each in queue.scan()]

    bodies = [each.message.body for each in found]
    assert sorted(bodies) == sorted([*(f"m{n}" for n in range(70)), "with properties"])
    [special] = [each for each in found if each.message.properties]
    assert special.message.properties == {"a": "b"}
    assert special.message.receipt == ""
    if engine != "azure":
        assert special.expires_at is not None
        assert abs(special.expires_at - datetime.now(UTC) - timedelta(hours=1)) < timedelta(
            minutes=1
        )
    assert (await queue.info()).length == 71
    [received] = await queue.receive(lease=30)
    assert received.dequeue_count == 1


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
async def test_a_scan_shows_what_is_delayed_or_leased(queue: Queue) -> None:
    await queue.put("delayed", delay=3600)
    await queue.put("leased")
    await queue.receive(lease=1800)
    found = {each.message.body: each async for each in queue.scan()}

    now = datetime.now(UTC)
    assert set(found) == {"delayed", "leased"}
    assert timedelta(minutes=55) < found["delayed"].ready_at - now < timedelta(minutes=61)
    assert timedelta(minutes=25) < found["leased"].ready_at - now < timedelta(minutes=31)


async def test_a_scan_that_is_given_up_leaves_everything(queue: Queue) -> None:
    await queue.put_many(["a", "b", "c"])
    scanning = queue.scan()
    async for _ in scanning:
        break
    await scanning.aclose()  # type: ignore[attr-defined]
    assert sorted(await receive_within(queue, A_MOMENT)) == ["a", "b", "c"]
