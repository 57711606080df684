"""A message that goes from one queue to another, that is asked for by its id, or not looked at."""

import asyncio

import pytest

from postroom.storage import InvalidName, InvalidValue, LeaseLost, Queue, Store, TooLarge

A_MOMENT = 20.0


@pytest.fixture
def queue(store: Store) -> Queue:
    return store.queue("shop/orders")


async def received_within(queue: Queue, seconds: float = A_MOMENT) -> list[str]:
    await queue.wait(seconds)
    return [m.body for m in await queue.receive(32, lease=30)]


async def test_a_moved_message_is_in_the_other_queue_with_its_attempts_reset(
    store: Store, queue: Queue, engine: str
) -> None:
    put = await queue.put("an order", properties={"colour": "red"})
    [first] = await queue.receive(lease=30)
    await queue.release(first)
    await queue.wait(A_MOMENT)
    [second] = await queue.receive(lease=30)
    assert second.dequeue_count == 2

    moved = await queue.move(second, "shop/orders;retry")

    other = store.queue("shop/orders;retry")
    assert (await queue.info()).length == 0
    [found] = await other.receive(lease=30)
    assert (found.id, found.queue, found.body) == (moved, other.name, "an order")
    assert found.dequeue_count == 1
    assert found.properties == {"colour": "red"}
    assert found.enqueued_at == second.enqueued_at
    if engine != "azure":
        assert moved == put


async def test_a_move_replaces_properties_and_delays(store: Store, queue: Queue) -> None:
    await queue.put("later", properties={"a": "1", "b": "2"})
    await queue.put("now", properties={"a": "1"})
    later, now = await queue.receive(2, lease=30)
    await queue.move(later, "other", delay=3600, properties={"c": "3"})
    await queue.move(now, "other", delay=0.5, properties={})
    other = store.queue("other")
    assert await other.wait(A_MOMENT)
    [found] = await other.receive(32, lease=30)
    assert (found.body, found.properties) == ("now", {})
    assert (await other.info()).length == 2


async def test_a_move_within_a_queue_resets_the_attempts(queue: Queue) -> None:
    identity = await queue.put("again", properties={"cycle": "1"})
    for _ in range(3):
        await queue.wait(A_MOMENT)
        [message] = await queue.receive(lease=30)
        await queue.release(message)
    await queue.wait(A_MOMENT)
    [message] = await queue.receive(lease=30)
    assert message.dequeue_count == 4
    assert await queue.move(message, queue.name, properties={"cycle": "2"}) == identity
    await queue.wait(A_MOMENT)
    [message] = await queue.receive(lease=30)
    assert (message.dequeue_count, message.properties) == (1, {"cycle": "2"})
    assert (await queue.info()).length == 1
    await queue.delete(message)


async def test_a_lost_lease_moves_nothing(store: Store, queue: Queue) -> None:
    await queue.put("contested")
    [mine] = await queue.receive(lease=1)
    await queue.wait(A_MOMENT)
    [theirs] = await queue.receive(lease=30)
    with pytest.raises(LeaseLost):
        await queue.move(mine, "other")
    assert [info.name for info in await store.queues()] == [queue.name]
    await queue.move(theirs, "other")
    for gone in (queue.renew(theirs, lease=30), queue.delete(theirs), queue.move(theirs, "third")):
        with pytest.raises(LeaseLost):
            await gone
    assert await received_within(store.queue("other")) == ["contested"]
    assert await received_within(store.queue("third"), 0) == []


async def test_what_cannot_be_moved_is_refused(queue: Queue) -> None:
    await queue.put("x" * 47_900)
    [peeked] = await queue.peek()
    with pytest.raises(InvalidValue, match="peeked"):
        await queue.move(peeked, "other")
    [message] = await queue.receive(lease=30)
    with pytest.raises(InvalidName):
        await queue.move(message, "other\n")
    with pytest.raises(InvalidValue):
        await queue.move(message, "other", delay=-1)
    with pytest.raises(TooLarge):
        await queue.move(message, "other", properties={"note": "x" * 1000})
    # What the keeper of a full message has to note on it still fits.
    await queue.move(message, "other", properties={"note": "x" * 400})


async def test_a_moved_message_wakes_who_waits_for_it(store: Store, other_store: Store) -> None:
    source = store.queue("from")
    await source.put("news")
    [message] = await source.receive(lease=30)
    waiting = [
        asyncio.create_task(other_store.queue("to").wait(30)),
        asyncio.create_task(other_store.wait_for_messages(timeout=30)),
    ]
    await asyncio.sleep(0.05)
    await source.move(message, "to")
    assert await waiting[0]
    assert await waiting[1] == {"to"}


async def test_one_message_is_received_by_its_id(queue: Queue, store: Store) -> None:
    ids = await queue.put_many([str(number) for number in range(40)])
    await store.queue("other").put("elsewhere")
    found = await queue.receive_by_id(ids[35], lease=30)
    assert found is not None
    assert (found.id, found.body, found.dequeue_count, found.queue) == (
        ids[35],
        "35",
        1,
        queue.name,
    )
    assert await queue.receive_by_id(ids[35], lease=30) is None  # somebody has it
    assert await store.queue("other").receive_by_id(ids[3], lease=30) is None
    for stranger in (
        "",
        "no such id",
        "7" * 19,
        "7" * 5000,
        "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    ):
        assert await queue.receive_by_id(stranger, lease=30) is None
    await queue.delete(found)
    assert await queue.receive_by_id(ids[35], lease=30) is None
    left = [m for _ in range(3) for m in await queue.receive(32, lease=30)]
    assert sorted(m.body for m in left) == sorted(str(n) for n in range(40) if n != 35)
    assert {m.dequeue_count for m in left} == {1}


async def test_a_delayed_message_is_not_received_by_its_id(queue: Queue) -> None:
    identity = await queue.put("later", delay=3600)
    assert await queue.receive_by_id(identity, lease=30) is None


async def test_excluded_queues_are_not_looked_at(store: Store) -> None:
    await store.queue("noise").put("x")
    await store.queue("silent").put("x", delay=3600)
    assert await store.wait_for_messages(timeout=0) == {"noise"}
    assert await store.wait_for_messages(excluding=["noise"], timeout=0.1) == frozenset()
    assert await store.wait_for_messages(["noise"], excluding=["noise"], timeout=0) == frozenset()
    waiting = asyncio.create_task(store.wait_for_messages(excluding=["noise"], timeout=30))
    await asyncio.sleep(0.05)
    await store.queue("noise").put("y")
    await store.queue("new").put("x")
    assert await waiting == {"new"}


async def test_many_excluded_queues_leave_the_others(store: Store, engine: str) -> None:
    names = [f"queue/{number}" for number in range(12 if engine == "azure" else 150)]
    await asyncio.gather(*(store.queue(name).put("x") for name in names))
    assert await store.wait_for_messages(excluding=names[1:], timeout=5) == {names[0]}
