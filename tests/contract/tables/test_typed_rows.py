"""Rows as values of a struct: only what it names is read, and never bytes."""

from datetime import UTC, datetime

import msgspec
import pytest

from postroom.storage import (
    BulkInsert,
    Entity,
    Insert,
    InvalidKey,
    InvalidValue,
    KeyRange,
    StoreDamaged,
    Table,
    Value,
    eq,
)

MOMENT = datetime(2026, 11, 15, 7, 28, 20, 5, tzinfo=UTC)


class Person(msgspec.Struct, frozen=True):
    Name: str
    Age: int = 0
    Since: datetime | None = None
    Share: float = 0.0
    Verified: bool = False


async def test_a_row_is_read_as_the_requested_struct(table: Table) -> None:
    everything: dict[str, Value] = {
        "Name": 'Ö "quoted" 🎈',
        "Age": 2**53 + 1,
        "Since": MOMENT,
        "Share": 2.0,
        "Picture": b"\0\xff",
        "Verified": True,
        "Besides": datetime(1999, 1, 1, tzinfo=UTC),
    }
    await table.apply(
        [Insert(Entity("p", "all", everything)), Insert(Entity("p", "few", {"Name": "x"}))]
    )
    assert await table.read(Person, "p") == {
        "all": Person('Ö "quoted" 🎈', 2**53 + 1, MOMENT, 2.0, True),
        "few": Person("x"),
    }


async def test_a_struct_that_names_bytes_is_refused(table: Table) -> None:
    class Picture(msgspec.Struct):
        Content: bytes | None = None

    with pytest.raises(InvalidValue, match="Content"):
        await table.read(Picture, "p")


async def test_rows_come_in_order_from_a_range_of_one_partition(table: Table) -> None:
    rows = ["a", 'b"\\', "c", "é", "\ue000", "🎈"]
    for partition in ("p", "p2"):
        await table.apply([BulkInsert(partition, {row: {"Name": row} for row in rows[::-1]})])
    assert list(await table.read(Person, "p")) == rows
    assert list(await table.read(Person, "p", KeyRange.between('b"\\', "é"))) == rows[1:4]
    assert list(await table.read(Person, "p", KeyRange("c"), limit=2)) == rows[2:4]
    assert await table.read(Person, "q") == {}


async def test_rows_that_do_not_match_are_left_out(table: Table) -> None:
    many = {f"{number:02}": {"Name": "odd" if number % 2 else "even"} for number in range(20)}
    await table.apply([BulkInsert("p", many)])
    found = await table.read(Person, "p", where=eq("Name", "odd"), limit=3)
    assert found == {row: Person("odd") for row in ("01", "03", "05")}


async def test_a_missing_table_has_no_rows(table: Table) -> None:
    assert await table.read(Person, "p") == {}


@pytest.mark.parametrize("properties", [{"Age": 5}, {"Name": 5}, {"Name": "x", "Verified": "yes"}])
async def test_a_property_of_another_type_is_damage(
    table: Table, properties: dict[str, int | str]
) -> None:
    await table.insert(Entity("p", "a", properties))
    with pytest.raises(StoreDamaged, match="people"):
        await table.read(Person, "p")


async def test_invalid_queries_are_refused(table: Table) -> None:
    with pytest.raises(InvalidKey):
        await table.read(Person, "")
    with pytest.raises(InvalidValue):
        await table.read(Person, "p", limit=1001)
    with pytest.raises(InvalidValue):
        await table.read(Person, "p", limit=0)
