"""Many rows in one operation, and several writes in one call: cheaper, with the same promises."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from postroom.storage import (
    AlreadyExists,
    Batch,
    Conflict,
    Delete,
    DeleteMany,
    Entity,
    Finish,
    Insert,
    InsertMany,
    InvalidBatch,
    InvalidKey,
    InvalidName,
    InvalidRequest,
    InvalidValue,
    KeyRange,
    LeaseLost,
    MessageToPut,
    NotFound,
    Operation,
    Put,
    Queue,
    QueueMessage,
    Replace,
    StaleETag,
    Store,
    Table,
    TooLarge,
    Value,
    eq,
)

MOMENT = datetime(2026, 11, 15, 7, 28, 20, 5, tzinfo=UTC)
ROWS = [f"{number:03}" for number in range(100)]


class Named(msgspec.Struct):
    Name: str = ""


async def contents(table: Table) -> dict[str, dict[str, object]]:
    return {e.row: dict(e.properties) for e in (await table.query(KeyRange.only("p"))).entities}


# -- rows that are alike ---------------------------------------------------------------------


async def test_rows_get_what_is_theirs_and_what_they_share(table: Table) -> None:
    shared: dict[str, Value] = {
        "At": MOMENT,
        "Done": True,
        "Tries": 1,
        "Share": 0.5,
        "Said": "all of you",
    }
    own = {
        "plain": {"Name": "Ann", "Reply": "250 2.0.0 Ok: queued as 4XyZ"},
        "quotes": {"Name": 'Ö "quoted" \\ \n\t back'},
        "emoji": {"Name": "🎈" * 20},
        "long": {"Name": "x" * 30_000},
        "nothing": {},
    }
    assert await table.apply([InsertMany("p", own, shared)]) == [""]
    assert await contents(table) == {row: {**each, **shared} for row, each in own.items()}
    found = await table.query(where=eq("Name", "Ann"))
    assert [entity.row for entity in found.entities] == ["plain"]
    assert found.entities[0].etag


async def test_rows_need_not_share_anything(table: Table) -> None:
    await table.apply([InsertMany("p", {row: {"Name": row} for row in ROWS})])
    assert await contents(table) == {row: {"Name": row} for row in ROWS}


async def test_rows_that_share_nothing_are_read_in_every_way(table: Table) -> None:
    await table.apply([InsertMany("p", {"a": {"Name": "Ann"}, "b": {}})])
    found = [await table.get("p", row) for row in ("a", "b")]
    assert [each and dict(each.properties) for each in found] == [{"Name": "Ann"}, {}]
    assert {row: each.Name for row, each in (await table.read(Named, "p")).items()} == {
        "a": "Ann",
        "b": "",
    }
    await table.merge(Entity("p", "a", {"Age": 7}))
    assert (await contents(table))["a"] == {"Name": "Ann", "Age": 7}


async def test_shared_and_own_properties_are_counted_together(table: Table) -> None:
    own = {f"Own{number}": "x" for number in range(50)}
    shared: dict[str, Value] = {f"Shared{number}": "x" for number in range(201)}
    with pytest.raises(TooLarge):
        await table.apply([InsertMany("p", {"a": own}, shared)])
    assert await contents(table) == {}


async def test_rows_that_were_inserted_together_are_like_others(table: Table) -> None:
    await table.apply([InsertMany("p", {"a": {"Name": "a"}, "b": {"Name": "b"}}, {"At": MOMENT})])
    found = await table.get("p", "a")
    assert found is not None
    await table.replace(Entity("p", "a", {"Name": "c"}), found.etag)
    with pytest.raises(StaleETag):
        await table.delete("p", "a", found.etag)
    await table.merge(Entity("p", "b", {"Name": "d"}))
    assert await contents(table) == {"a": {"Name": "c"}, "b": {"Name": "d", "At": MOMENT}}


async def test_many_are_deleted_at_once(table: Table) -> None:
    await table.apply([InsertMany("p", {row: {} for row in ROWS})])
    assert await table.apply([DeleteMany("p", ROWS[1:])]) == [""]
    assert list(await contents(table)) == ["000"]


async def test_rows_between_deleted_ones_stay(table: Table) -> None:
    odd = ["a b", "a,b", "a\ufffdb", "a🎈b", "ä", "🎈"]
    await table.apply([InsertMany("p", {row: {} for row in [*ROWS[:50], *odd]})])
    await table.insert(Entity("q", "001", {}))
    await table.apply([DeleteMany("p", [*ROWS[48:10:-2], *reversed(odd)])])
    await table.apply([DeleteMany("p", [ROWS[49]])])
    assert [*await contents(table)] == sorted([*ROWS[:11], *ROWS[11:49:2]])
    assert await table.get("q", "001") is not None


async def test_rows_without_an_order_are_all_deleted(table: Table) -> None:
    odd = ["🎈", "a,b", "ä", "a b", "a\ufffdb", "a🎈b", 'quo"te', "back slash"]
    await table.apply([InsertMany("p", {row: {} for row in [*ROWS[:20], *odd]})])
    await table.apply([DeleteMany("p", [*odd, *reversed(ROWS[:20])])])
    assert await contents(table) == {}


async def test_many_go_together_with_others(table: Table) -> None:
    [etag] = await table.apply([Insert(Entity("p", "replaced", {"Old": 1}))])
    await table.apply([InsertMany("p", {"gone 1": {}, "gone 2": {}, "gone 3": {}})])
    etags = await table.apply(
        [
            Replace(Entity("p", "replaced", {"New": 1}), etag),
            InsertMany("p", {"one": {"Name": "1"}, "two": {}}, {"At": MOMENT}),
            DeleteMany("p", ["gone 1", "gone 2"]),
            InsertMany("p", {"three": {"Other": "3"}}),
            Delete("p", "gone 3"),
            Insert(Entity("p", "four", {})),
        ]
    )
    assert [bool(each) for each in etags] == [True, False, False, False, False, True]
    assert await contents(table) == {
        "four": {},
        "one": {"Name": "1", "At": MOMENT},
        "replaced": {"New": 1},
        "three": {"Other": "3"},
        "two": {"At": MOMENT},
    }
    last = await table.get("p", "four")
    assert last is not None
    assert last.etag == etags[5]


@pytest.mark.parametrize("before", [0, 2])
async def test_an_existing_one_of_many_stops_all_of_them(table: Table, before: int) -> None:
    await table.insert(Entity("p", "077", {"Old": 1}))
    others = [Insert(Entity("p", f"other {number}", {})) for number in range(before)]
    many = InsertMany("p", {row: {"New": "1"} for row in ROWS[before:]})
    with pytest.raises(AlreadyExists) as failure:
        await table.apply([*others, many])
    assert failure.value.operation == 77
    assert "'077'" in str(failure.value)
    assert await contents(table) == {"077": {"Old": 1}}


async def test_a_missing_one_of_many_stops_all_of_them(table: Table) -> None:
    rows = [row for row in ROWS if row != "077"]
    await table.apply([InsertMany("p", {row: {} for row in rows})])
    with pytest.raises(NotFound) as failure:
        await table.apply([DeleteMany("p", ROWS)])
    assert failure.value.operation == 77
    assert list(await contents(table)) == rows


async def test_nothing_can_be_deleted_from_a_missing_table(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.table("nowhere").apply([DeleteMany("p", ["a", "b"])])


REFUSED: list[tuple[str, list[Operation], type[InvalidRequest]]] = [
    ("no rows", [InsertMany("p", {})], InvalidBatch),
    ("none to delete", [DeleteMany("p", [])], InvalidBatch),
    ("101", [InsertMany("p", {str(n): {} for n in range(101)})], InvalidBatch),
    ("101 in two", [DeleteMany("p", ROWS), Delete("p", "last")], InvalidBatch),
    ("twice", [DeleteMany("p", ["a", "a"])], InvalidBatch),
    ("twice in two", [InsertMany("p", {"a": {}}), DeleteMany("p", ["b", "a"])], InvalidBatch),
    ("two partitions", [InsertMany("p", {"a": {}}), DeleteMany("q", ["b"])], InvalidBatch),
    ("empty key", [DeleteMany("p", ["a", ""])], InvalidKey),
    ("control character", [InsertMany("p", {"a\n": {}})], InvalidKey),
    ("long key", [DeleteMany("p", ["a", "b" * 513])], InvalidKey),
    ("no text as key", [DeleteMany("p", ["a", 5])], InvalidKey),  # type: ignore[list-item]
    ("partition", [InsertMany("", {"a": {}})], InvalidKey),
    ("name", [InsertMany("p", {"a": {"1st": "x"}})], InvalidName),
    ("shared name", [InsertMany("p", {"a": {}}, {"etag": "x"})], InvalidName),
    ("both", [InsertMany("p", {"a": {"Name": "x"}}, {"Name": "y"})], InvalidValue),
    ("no text", [InsertMany("p", {"a": {"Age": 5}})], InvalidValue),  # type: ignore[dict-item]
    ("NUL", [InsertMany("p", {"a": {"Name": "\0"}})], InvalidValue),
    ("surrogate", [InsertMany("p", {"a": {"Name": "\ud800"}})], InvalidValue),
    ("shared", [InsertMany("p", {"a": {}}, {"Age": 2**63})], InvalidValue),
    ("large", [InsertMany("p", {"a": {"Name": "x" * 65_001}})], TooLarge),
    ("all", [InsertMany("p", {r: {} for r in ROWS}, {"Text": "x" * 30_000})], TooLarge),
]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)  # decided before an engine sees it
async def test_what_cannot_be_kept_is_refused(store: Store) -> None:
    for name, operations, error in REFUSED:
        with pytest.raises(error):
            await store.table("people").apply(operations)
        assert await store.tables() == [], name


# -- one write after the other ---------------------------------------------------------------


@pytest.fixture
def queue(store: Store) -> Queue:
    return store.queue("mail/send")


async def received(queue: Queue) -> QueueMessage:
    await queue.put("work")
    [message] = await queue.receive(lease=60)
    return message


def archive(*rows: str) -> Batch:
    return Batch("archive", [InsertMany("p", {row: {"Name": row} for row in rows})])


async def test_writes_to_several_tables_and_a_queue_are_one_call(
    store: Store, table: Table, queue: Queue
) -> None:
    message = await received(queue)
    await table.apply([InsertMany("p", {"a": {}, "b": {}})])
    await store.write_in_order(
        [archive("a", "b"), Batch("people", [DeleteMany("p", ["a", "b"])]), Finish(message)]
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


async def test_messages_are_put_behind_what_was_written(store: Store, queue: Queue) -> None:
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
        (DeleteMany("p", ["there", "missing"]), NotFound),
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
        await store.write_in_order([archive("first"), failing, archive("last"), Finish(message)])
    assert failure.value.operation == (2 if error is NotFound else 1)
    assert list(await contents(store.table("archive"))) == ["first"]
    assert await contents(table) == {"there": {"Old": 1}}
    await queue.delete(message)


async def test_a_lost_lease_stops_what_is_behind_it(store: Store, queue: Queue) -> None:
    message = await received(queue)
    await queue.delete(message)
    with pytest.raises(LeaseLost):
        await store.write_in_order([archive("first"), Finish(message), archive("last")])
    assert list(await contents(store.table("archive"))) == ["first"]


async def test_what_cannot_be_done_at_all_is_refused(store: Store, queue: Queue) -> None:
    message = await received(queue)
    [peeked] = [QueueMessage(message.id, queue.name, "", {}, 0, MOMENT)]
    for impossible in (
        Batch("people", []),
        Batch("People", [Delete("p", "a")]),
        Finish(peeked),
        Put(queue.name, [MessageToPut("x" * 100_000)]),
        Put("", [MessageToPut("x")]),
    ):
        with pytest.raises(InvalidRequest):
            await store.write_in_order([impossible, Finish(message)])
    await queue.delete(message)
