"""Merging under a condition: rows that match are changed and returned, each for one caller."""

import asyncio
from datetime import UTC, datetime

import pytest

from postroom.storage import Conflict, Entity, Insert, InvalidBatch, InvalidValue, Table, Value, eq

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


async def fill(table: Table, count: int) -> list[str]:
    rows = [f"{number:02}" for number in range(count)]
    await table.apply(
        [
            Insert(Entity("p", row, {"Owner": "", "Until": "never", "Data": row.encode() * 2000}))
            for row in rows
        ]
    )
    return rows


async def test_rows_that_match_are_changed_and_returned_whole(table: Table) -> None:
    rows = await fill(table, 4)
    await table.merge(Entity("p", "02", {"Owner": "somebody"}))
    changes: dict[str, Value] = {"Owner": "me", "Until": NOON}
    merged = await table.merge_where("p", [*rows, "99"], changes, eq("Owner", ""))
    assert sorted(merged) == ["00", "01", "03"]
    for row, entity in merged.items():
        assert entity == await table.get("p", row)
        assert entity.properties == {"Owner": "me", "Until": NOON, "Data": row.encode() * 2000}
    other = await table.get("p", "02")
    assert other is not None
    assert other.properties["Until"] == "never"


async def test_the_etag_is_the_fence_of_what_was_merged(table: Table) -> None:
    rows = await fill(table, 2)
    before = {row: await table.get("p", row) for row in rows}
    merged = await table.merge_where("p", rows, {"Owner": "me"}, eq("Owner", ""))
    assert sorted(merged) == rows
    for row, entity in merged.items():
        free, old = Entity("p", row, {"Owner": ""}), before[row]
        assert old is not None
        with pytest.raises(Conflict):
            await table.replace(free, old.etag)
        await table.replace(free, entity.etag)
        with pytest.raises(Conflict):
            await table.replace(free, entity.etag)


async def test_of_many_callers_exactly_one_gets_each_row(table: Table) -> None:
    rows = await fill(table, 20)
    owners = [f"owner {number}" for number in range(8)]
    results = await asyncio.gather(
        *(table.merge_where("p", rows, {"Owner": each}, eq("Owner", "")) for each in owners)
    )
    got = [row for merged in results for row in merged]
    assert sorted(got) == rows
    for owner, merged in zip(owners, results, strict=True):
        assert {entity.properties["Owner"] for entity in merged.values()} <= {owner}


async def test_nothing_matches_where_nothing_is(table: Table) -> None:
    assert await table.merge_where("p", ["a"], {"Owner": "me"}, eq("Owner", "")) == {}
    await fill(table, 1)
    assert await table.merge_where("p", ["a"], {"Owner": "me"}, eq("Owner", "")) == {}
    assert await table.merge_where("q", ["00"], {"Owner": "me"}, eq("Owner", "")) == {}


async def test_bytes_and_too_many_rows_are_refused(table: Table) -> None:
    with pytest.raises(InvalidValue):
        await table.merge_where("p", ["a"], {"Data": b"x"}, eq("Owner", ""))
    with pytest.raises(InvalidBatch):
        await table.merge_where("p", [], {"Owner": "me"}, eq("Owner", ""))
    with pytest.raises(InvalidBatch):
        await table.merge_where("p", list(map(str, range(101))), {"Owner": ""}, eq("Owner", ""))
