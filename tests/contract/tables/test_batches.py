"""Atomic batches: all of it or nothing, and the culprit is named."""

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from postroom.storage import (
    AlreadyExists,
    Conflict,
    Delete,
    Entity,
    Insert,
    KeyRange,
    Merge,
    NotFound,
    Operation,
    Replace,
    StaleETag,
    Store,
    Table,
    Upsert,
)


def person(row: str, **properties: str | int) -> Entity:
    return Entity("p", row, properties)


async def contents(table: Table) -> dict[str, dict[str, object]]:
    return {e.row: dict(e.properties) for e in (await table.query(KeyRange.only("p"))).entities}


async def test_a_batch_does_every_kind_of_operation(table: Table) -> None:
    etags = await table.apply(
        [Insert(person(name, Old=1, Kept=1)) for name in ("merged", "removed", "replaced", "upset")]
    )
    names = ("merged", "removed", "replaced", "upset")
    stored = [await table.get("p", name) for name in names]
    assert [each.etag for each in stored if each is not None] == etags
    assert all(etags)

    changed = await table.apply(
        [
            Insert(person("inserted", New=1)),
            Merge(person("merged", New=1)),
            Delete("p", "removed"),
            Replace(person("replaced", New=1), etags[2]),
            Upsert(person("upset", New=1)),
            Upsert(person("upstart", New=1)),
        ]
    )

    assert await contents(table) == {
        "inserted": {"New": 1},
        "merged": {"Old": 1, "Kept": 1, "New": 1},
        "replaced": {"New": 1},
        "upset": {"New": 1},
        "upstart": {"New": 1},
    }
    rows = ["inserted", "merged", "removed", "replaced", "upset", "upstart"]
    found = {row: await table.get("p", row) for row in rows}
    assert changed == [entity.etag if entity else "" for entity in found.values()]
    assert found["removed"] is None
    for name, old in zip(names, etags, strict=True):
        assert old not in changed, f"{name} has changed, so its ETag has"


async def test_a_hundred_operations_fit(table: Table) -> None:
    rows = [f"{number:03}" for number in range(100)]
    await table.apply([Insert(person(row, Number=1)) for row in rows])
    assert list(await contents(table)) == rows
    await table.apply([Delete("p", row) for row in rows])
    assert await contents(table) == {}


STALE = "stale"
FAILING: list[tuple[str, Operation, type[Conflict]]] = [
    ("insert", Insert(person("there", New=1)), AlreadyExists),
    ("replace", Replace(person("missing", New=1)), NotFound),
    ("merge", Merge(person("missing", New=1)), NotFound),
    ("delete", Delete("p", "missing"), NotFound),
    ("stale replace", Replace(person("there", New=1), STALE), StaleETag),
    ("stale merge", Merge(person("there", New=1), STALE), StaleETag),
    ("stale delete", Delete("p", "there", STALE), StaleETag),
]


def with_etag(operation: Operation, etag: str) -> Operation:
    match operation:
        case Replace(entity, expected) if expected == STALE:
            return Replace(entity, etag)
        case Merge(entity, expected) if expected == STALE:
            return Merge(entity, etag)
        case Delete(partition, row, expected) if expected == STALE:
            return Delete(partition, row, etag)
        case _:
            return operation


async def test_one_operation_that_fails_undoes_all_and_is_named(table: Table) -> None:
    stale = await table.insert(person("there", Old=1))
    await table.replace(person("there", Old=2), stale)
    await table.apply([Insert(person("merged", Old=1)), Insert(person("removed", Old=1))])
    before = await contents(table)
    others: Sequence[Operation] = [
        Insert(person("inserted", New=1)),
        Merge(person("merged", New=1)),
        Upsert(person("upset", New=1)),
        Delete("p", "removed"),
    ]

    for (name, operation, error), position in itertools.product(FAILING, (0, 2, 4)):
        batch = [*others[:position], with_etag(operation, stale), *others[position:]]
        with pytest.raises(error) as failure:
            await table.apply(batch)
        assert failure.value.operation == position, name
        assert repr("missing" if error is NotFound else "there") in str(failure.value), name
        assert await contents(table) == before, f"{name} at {position}"


@pytest.mark.parametrize("kind", [Insert, Delete])
async def test_of_a_hundred_alike_the_one_that_fails_is_named(
    table: Table, kind: type[Insert] | type[Delete]
) -> None:
    rows = [f"{number:03}" for number in range(100)]
    operations: Sequence[Operation]
    if kind is Insert:
        await table.insert(person("077"))
        operations = [Insert(person(row)) for row in rows]
    else:
        await table.apply([Insert(person(row)) for row in rows if row != "077"])
        operations = [Delete("p", row) for row in rows]
    before = await contents(table)
    with pytest.raises(Conflict) as failure:
        await table.apply(operations)
    assert failure.value.operation == 77
    assert await contents(table) == before


async def test_two_batches_over_the_same_rows_do_not_mix(store: Store, other_store: Store) -> None:
    rows = [f"{number:02}" for number in range(30)]

    async def write(which: Store, author: str, order: Sequence[str]) -> None:
        for _ in range(5):
            await which.table("people").apply([Upsert(person(row, Author=author)) for row in order])

    await asyncio.gather(write(store, "one", rows), write(other_store, "two", list(reversed(rows))))
    authors = {p["Author"] for p in (await contents(store.table("people"))).values()}
    assert len(authors) == 1


async def test_a_reader_never_sees_a_part_of_a_batch(store: Store, other_store: Store) -> None:
    rows = [f"{number:02}" for number in range(20)]
    await store.table("people").apply([Insert(person(row, Version=0)) for row in rows])

    async def write() -> None:
        for version in range(1, 15):
            await store.table("people").apply(
                [Replace(person(row, Version=version)) for row in rows]
            )

    writing = asyncio.create_task(write())
    while not writing.done():
        seen = {p["Version"] for p in (await contents(other_store.table("people"))).values()}
        assert len(seen) == 1
    await writing
