"""Rows that share properties, inserted by one operation: cheaper, with the same promises."""

from datetime import UTC, datetime

import msgspec
import pytest

from postroom.storage import (
    AlreadyExists,
    BulkInsert,
    Delete,
    Entity,
    Insert,
    InvalidBatch,
    InvalidKey,
    InvalidName,
    InvalidRequest,
    InvalidValue,
    KeyRange,
    Operation,
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
    assert await table.apply([BulkInsert("p", own, shared)]) == [""]
    assert await contents(table) == {row: {**each, **shared} for row, each in own.items()}
    found = await table.query(where=eq("Name", "Ann"))
    assert [entity.row for entity in found.entities] == ["plain"]
    assert found.entities[0].etag


async def test_rows_without_shared_properties_are_read_in_every_way(table: Table) -> None:
    await table.apply([BulkInsert("p", {"a": {"Name": "Ann"}, "b": {}})])
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
        await table.apply([BulkInsert("p", {"a": own}, shared)])
    assert await contents(table) == {}


async def test_rows_that_were_inserted_together_are_like_others(table: Table) -> None:
    await table.apply([BulkInsert("p", {"a": {"Name": "a"}, "b": {"Name": "b"}}, {"At": MOMENT})])
    found = await table.get("p", "a")
    assert found is not None
    await table.replace(Entity("p", "a", {"Name": "c"}), found.etag)
    with pytest.raises(StaleETag):
        await table.delete("p", "a", found.etag)
    await table.merge(Entity("p", "b", {"Name": "d"}))
    assert await contents(table) == {"a": {"Name": "c"}, "b": {"Name": "d", "At": MOMENT}}


async def test_a_bulk_insert_is_one_of_several_operations(table: Table) -> None:
    [etag, _] = await table.apply(
        [Insert(Entity("p", "replaced", {"Old": 1})), Insert(Entity("p", "gone", {}))]
    )
    etags = await table.apply(
        [
            Replace(Entity("p", "replaced", {"New": 1}), etag),
            BulkInsert("p", {"one": {"Name": "1"}, "two": {}}, {"At": MOMENT}),
            BulkInsert("p", {"three": {"Other": "3"}}),
            Delete("p", "gone"),
            Insert(Entity("p", "four", {})),
        ]
    )
    assert [bool(each) for each in etags] == [True, False, False, False, True]
    assert await contents(table) == {
        "four": {},
        "one": {"Name": "1", "At": MOMENT},
        "replaced": {"New": 1},
        "three": {"Other": "3"},
        "two": {"At": MOMENT},
    }
    last = await table.get("p", "four")
    assert last is not None
    assert last.etag == etags[4]


@pytest.mark.parametrize("before", [0, 2])
async def test_an_existing_one_of_many_stops_all_of_them(table: Table, before: int) -> None:
    await table.insert(Entity("p", "077", {"Old": 1}))
    others = [Insert(Entity("p", f"other {number}", {})) for number in range(before)]
    many = BulkInsert("p", {row: {"New": "1"} for row in ROWS[before:]})
    with pytest.raises(AlreadyExists) as failure:
        await table.apply([*others, many])
    assert failure.value.operation == 77
    assert "'077'" in str(failure.value)
    assert await contents(table) == {"077": {"Old": 1}}


REFUSED: list[tuple[str, list[Operation], type[InvalidRequest]]] = [
    ("no rows", [BulkInsert("p", {})], InvalidBatch),
    ("101", [BulkInsert("p", {str(n): {} for n in range(101)})], InvalidBatch),
    ("101 in two", [BulkInsert("p", {r: {} for r in ROWS}), Delete("p", "last")], InvalidBatch),
    ("twice in two", [BulkInsert("p", {"a": {}}), Delete("p", "a")], InvalidBatch),
    ("two partitions", [BulkInsert("p", {"a": {}}), BulkInsert("q", {"b": {}})], InvalidBatch),
    ("empty key", [BulkInsert("p", {"a": {}, "": {}})], InvalidKey),
    ("control character", [BulkInsert("p", {"a\n": {}})], InvalidKey),
    ("long key", [BulkInsert("p", {"b" * 513: {}})], InvalidKey),
    ("number as key", [BulkInsert("p", {5: {}})], InvalidKey),  # type: ignore[dict-item]
    ("partition", [BulkInsert("", {"a": {}})], InvalidKey),
    ("name", [BulkInsert("p", {"a": {"1st": "x"}})], InvalidName),
    ("shared name", [BulkInsert("p", {"a": {}}, {"etag": "x"})], InvalidName),
    ("both", [BulkInsert("p", {"a": {"Name": "x"}}, {"Name": "y"})], InvalidValue),
    ("no text", [BulkInsert("p", {"a": {"Age": 5}})], InvalidValue),  # type: ignore[dict-item]
    ("NUL", [BulkInsert("p", {"a": {"Name": "\0"}})], InvalidValue),
    ("surrogate", [BulkInsert("p", {"a": {"Name": "\ud800"}})], InvalidValue),
    ("shared", [BulkInsert("p", {"a": {}}, {"Age": 2**63})], InvalidValue),
    ("large", [BulkInsert("p", {"a": {"Name": "x" * 65_001}})], TooLarge),
    ("all", [BulkInsert("p", {r: {} for r in ROWS}, {"Text": "x" * 30_000})], TooLarge),
]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)  # decided before an engine sees it
async def test_invalid_rows_are_refused(store: Store) -> None:
    for name, operations, error in REFUSED:
        with pytest.raises(error):
            await store.table("people").apply(operations)
        assert await store.tables() == [], name
