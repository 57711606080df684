"""Several writes in one call, one after the other."""

import asyncio
from datetime import UTC, datetime

import pytest

from postroom.storage import (
    AlreadyExists,
    Batch,
    Conflict,
    Delete,
    Entity,
    Finish,
    Insert,
    InvalidRequest,
    KeyRange,
    LeaseLost,
    MessageToPut,
    NotFound,
    Operation,
    Put,
    Queue,
    QueueMessage,
    StaleETag,
    Store,
    Table,
)

MOMENT = datetime(2026, 11, 15, 7, 28, 20, 5, tzinfo=UTC)


async def contents(table: Table) -> dict[str, dict[str, object]]:
    return {e.row: dict(e.properties) for e in (await table.query(KeyRange.only("p"))).entities}


@pytest.fixture
def queue(store: Store) -> Queue:
    return store.queue("mail/send")


async def received(queue: Queue) -> QueueMessage:
    await queue.put("work")
    [message] = await queue.receive(lease=60)
    return message


def archive(*rows: str) -> Batch:
    return Batch("archive", [Insert(Entity("p", row, {"Name": row})) for row in rows])


async def test_writes_to_several_tables_and_a_queue_are_one_call(
    store: Store, table: Table, queue: Queue
) -> None:
    message = await received(queue)
    await table.apply([Insert(Entity("p", row, {})) for row in ("a", "b")])
    await store.write_in_order(
        [
            archive("a", "b"),
            Batch("people", [Delete("p", "a"), Delete("p", "b")]),
            Finish([message]),
        ]
    )
    assert await contents(table) == {}
    assert list(await contents(store.table("archive"))) == ["a", "b"]
    assert (await queue.info()).length == 0


async def test_a_later_step_sees_what_an_earlier_one_wrote(store: Store, table: Table) -> None:
    await store.write_in_order(
        [
            Batch("people", [Insert(Entity("p", "a", {}))]),
            Batch("people", [Delete("p", "a"), Insert(Entity("p", "b", {}))]),
        ]
    )
    assert list(await contents(table)) == ["b"]


async def test_messages_are_put_after_what_was_written(store: Store, queue: Queue) -> None:
    new = [
        MessageToPut("one", properties={"language": "fr"}),
        MessageToPut("later", delay=3600),
    ]
    await store.write_in_order([archive("a"), Put(queue.name, new), Put("other", [])])
    assert list(await contents(store.table("archive"))) == ["a"]
    [one] = await queue.receive(10, lease=60)
    assert (one.body, one.properties) == ("one", {"language": "fr"})
    assert (await queue.info()).length == 2
    assert [each.name for each in await store.queues()] == [queue.name]


async def test_messages_behind_a_step_that_fails_are_not_put(store: Store, queue: Queue) -> None:
    with pytest.raises(NotFound):
        await store.write_in_order(
            [
                Put(queue.name, [MessageToPut("before")]),
                Batch("people", [Delete("p", "missing")]),
                Put(queue.name, [MessageToPut("behind")]),
            ]
        )
    assert [each.body for each in await queue.receive(10, lease=60)] == ["before"]


async def test_waiting_ends_when_messages_are_put_in_order(store: Store, queue: Queue) -> None:
    waiting = asyncio.create_task(queue.wait(30))
    await asyncio.sleep(0)
    await store.write_in_order([Put(queue.name, [MessageToPut("one")])])
    assert await waiting


async def test_no_steps_are_nothing(store: Store) -> None:
    await store.write_in_order([])
    assert await store.tables() == []


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Insert(Entity("p", "there", {})), AlreadyExists),
        (Delete("p", "missing"), NotFound),
        (Delete("p", "there", "0"), StaleETag),
    ],
)
async def test_a_step_that_fails_stops_those_behind_it_and_no_other(
    store: Store, table: Table, queue: Queue, operation: Operation, error: type[Conflict]
) -> None:
    message = await received(queue)
    await table.insert(Entity("p", "there", {"Old": 1}))
    failing = Batch("people", [Insert(Entity("p", "new", {})), operation])
    with pytest.raises(error) as failure:
        await store.write_in_order([archive("first"), failing, archive("last"), Finish([message])])
    assert failure.value.operation == 1
    assert list(await contents(store.table("archive"))) == ["first"]
    assert await contents(table) == {"there": {"Old": 1}}
    await queue.delete(message)


async def test_a_lost_lease_stops_what_is_behind_it(store: Store, queue: Queue) -> None:
    message = await received(queue)
    await queue.delete(message)
    with pytest.raises(LeaseLost):
        await store.write_in_order([archive("first"), Finish([message]), archive("last")])
    assert list(await contents(store.table("archive"))) == ["first"]


async def test_messages_are_finished_together(store: Store, queue: Queue) -> None:
    await queue.put_many(["one", "two", "three"])
    first, second, third = await queue.receive(3, lease=60)
    await store.write_in_order([archive("first"), Finish([first, second])])
    assert (await queue.info()).length == 1
    await queue.release(third)
    again = await queue.receive(lease=60)
    with pytest.raises(LeaseLost):  # the old receipt of a message that we have received again
        await store.write_in_order([archive("second"), Finish([third])])
    assert list(await contents(store.table("archive"))) == ["first", "second"]
    await store.write_in_order([Finish(again)])
    assert (await queue.info()).length == 0


async def test_what_cannot_be_done_at_all_is_refused(store: Store, queue: Queue) -> None:
    message = await received(queue)
    [peeked] = [QueueMessage(message.id, queue.name, "", {}, 0, MOMENT)]
    for impossible in (
        Batch("people", []),
        Batch("People", [Delete("p", "a")]),
        Finish([peeked]),
        Put(queue.name, [MessageToPut("x" * 100_000)]),
        Put("", [MessageToPut("x")]),
    ):
        with pytest.raises(InvalidRequest):
            await store.write_in_order([impossible, Finish([message])])
    await queue.delete(message)
