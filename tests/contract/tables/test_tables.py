"""Single rows: reading, writing, and who wins when two write."""

import asyncio

import pytest

from postroom.storage import (
    AlreadyExists,
    Entity,
    NotFound,
    StaleETag,
    Store,
    Table,
    Upsert,
)

ANN = Entity("list", "ann", {"Name": "Ann", "Age": 40})
NEWER_ANN = Entity("list", "ann", {"Name": "Anna"})


async def test_what_was_inserted_is_read_back_with_its_etag(table: Table) -> None:
    etag = await table.insert(ANN)
    found = await table.get("list", "ann")
    assert found == Entity("list", "ann", {"Name": "Ann", "Age": 40}, etag)
    assert etag


async def test_a_missing_row_is_none(table: Table) -> None:
    assert await table.get("list", "nobody") is None
    await table.insert(ANN)
    assert await table.get("list", "nobody") is None
    assert await table.get("nowhere", "ann") is None


async def test_an_entity_may_have_no_properties(table: Table) -> None:
    await table.insert(Entity("list", "empty", {}))
    found = await table.get("list", "empty")
    assert found is not None
    assert found.properties == {}


async def test_inserting_a_row_twice_fails_and_keeps_the_first(table: Table) -> None:
    await table.insert(ANN)
    with pytest.raises(AlreadyExists, match="ann"):
        await table.insert(NEWER_ANN)
    found = await table.get("list", "ann")
    assert found is not None
    assert found.properties == ANN.properties


async def test_replace_removes_what_is_not_given(table: Table) -> None:
    await table.insert(ANN)
    etag = await table.replace(NEWER_ANN)
    assert await table.get("list", "ann") == Entity("list", "ann", {"Name": "Anna"}, etag)


async def test_merge_keeps_what_is_not_given(table: Table) -> None:
    await table.insert(ANN)
    etag = await table.merge(NEWER_ANN)
    expected = Entity("list", "ann", {"Name": "Anna", "Age": 40}, etag)
    assert await table.get("list", "ann") == expected


async def test_upsert_inserts_or_replaces(table: Table) -> None:
    first = await table.upsert(ANN)
    assert await table.get("list", "ann") == Entity("list", "ann", ANN.properties, first)
    second = await table.upsert(NEWER_ANN)
    assert await table.get("list", "ann") == Entity("list", "ann", {"Name": "Anna"}, second)
    assert first != second


async def test_delete_removes_the_row(table: Table) -> None:
    await table.insert(ANN)
    await table.delete("list", "ann")
    assert await table.get("list", "ann") is None


@pytest.mark.parametrize("etag", [None, "12345"])
async def test_changing_a_missing_row_is_an_error(table: Table, etag: str | None) -> None:
    if etag is not None:
        etag = await table.insert(ANN)
        await table.delete("list", "ann")
    with pytest.raises(NotFound):
        await table.replace(ANN, etag)
    with pytest.raises(NotFound):
        await table.merge(ANN, etag)
    with pytest.raises(NotFound):
        await table.delete("list", "ann", etag)
    assert await table.get("list", "ann") is None


async def test_a_stale_etag_and_a_missing_row_are_different_errors(table: Table) -> None:
    stale = await table.insert(ANN)
    current = await table.replace(ANN, stale)
    with pytest.raises(StaleETag):
        await table.replace(NEWER_ANN, stale)
    with pytest.raises(StaleETag):
        await table.merge(NEWER_ANN, stale)
    with pytest.raises(StaleETag):
        await table.delete("list", "ann", stale)
    assert await table.get("list", "ann") == Entity("list", "ann", ANN.properties, current)
    newer = await table.merge(NEWER_ANN, current)
    await table.delete("list", "ann", newer)


async def test_an_invented_etag_is_stale(table: Table) -> None:
    await table.insert(ANN)
    for nonsense in ("W/\"datetime'2001-01-01T00%3A00%3A00.0000000Z'\"", "0", "9" * 30, ""):
        with pytest.raises(StaleETag):
            await table.replace(NEWER_ANN, nonsense)


async def test_a_recreated_row_does_not_have_its_old_etag(table: Table) -> None:
    old = await table.insert(ANN)
    await table.delete("list", "ann")
    await table.insert(ANN)
    with pytest.raises(StaleETag):
        await table.replace(NEWER_ANN, old)


async def test_writing_the_same_values_again_still_gives_a_new_etag(table: Table) -> None:
    first = await table.insert(ANN)
    assert await table.replace(ANN) != first


async def test_of_many_who_hold_the_same_etag_one_succeeds(
    store: Store, other_store: Store
) -> None:
    etag = await store.table("people").insert(ANN)

    async def replace(number: int) -> bool:
        table = (store if number % 2 else other_store).table("people")
        try:
            await table.replace(Entity("list", "ann", {"Winner": number}), etag)
        except StaleETag:
            return False
        return True

    won = await asyncio.gather(*(replace(number) for number in range(10)))
    found = await store.table("people").get("list", "ann")
    assert found is not None
    assert [number for number, succeeded in enumerate(won) if succeeded] == [
        found.properties["Winner"]
    ]


async def test_of_many_who_insert_the_same_row_one_succeeds(
    store: Store, other_store: Store
) -> None:
    async def insert(number: int) -> bool:
        table = (store if number % 2 else other_store).table("people")
        try:
            await table.insert(Entity("list", "ann", {"Winner": number}))
        except AlreadyExists:
            return False
        return True

    assert sum(await asyncio.gather(*(insert(number) for number in range(10)))) == 1


async def test_tables_do_not_see_each_other_and_are_listed(store: Store) -> None:
    assert await store.tables() == []
    await store.table("people").insert(ANN)
    await store.table("archive").insert(NEWER_ANN)
    assert await store.tables() == ["archive", "people"]
    found = await store.table("people").get("list", "ann")
    assert found is not None
    assert found.properties == ANN.properties


async def test_another_process_sees_a_write_as_soon_as_it_returned(
    store: Store, other_store: Store
) -> None:
    for number in range(20):
        await store.table("people").upsert(Entity("list", "ann", {"Number": number}))
        found = await other_store.table("people").get("list", "ann")
        assert found is not None
        assert found.properties == {"Number": number}


async def test_many_tasks_can_write_at_once(table: Table) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(100):
            tasks.create_task(table.insert(Entity(f"p{number % 5}", f"{number:03}", {"N": number})))
    assert len((await table.query()).entities) == 100


async def test_a_cancelled_call_leaves_the_store_usable(table: Table) -> None:
    for number in range(10):
        task = asyncio.create_task(table.apply([Upsert(Entity("p", f"{number}", {"N": number}))]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await table.upsert(ANN)
    assert await table.get("list", "ann") is not None
