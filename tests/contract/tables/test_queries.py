"""Range queries: key order, pages, continuation, and filters."""

import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from postroom.storage import (
    EVERY_KEY,
    Entity,
    Filter,
    Insert,
    InvalidValue,
    KeyRange,
    Table,
    Value,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
)
from postroom.storage.filters import matches

# In code-point order, which differs from that of UTF-16 (the last two) and of dictionaries.
ROWS = [
    " ", "!", '"', "#", "$", "%", "&", "-", ".", ".a", "/", "0", "9", ">", "?", "@", "A", "Z",
    "[", "\\", "]", "a", "aa", "ab", "b", "z", "~", "é", "ü", "한", "\uffee", "\U0001f389",
]  # fmt: skip


async def fill(table: Table, partitions: list[str], rows: list[str]) -> None:
    for partition in partitions:
        shuffled = random.Random(1).sample(rows, len(rows))
        for start in range(0, len(rows), 100):
            await table.apply(
                [
                    Insert(Entity(partition, row, {"R": row}))
                    for row in shuffled[start : start + 100]
                ]
            )


async def keys(table: Table, *ranges: KeyRange, limit: int = 1000) -> list[tuple[str, str]]:
    result = await table.query(*ranges, limit=limit)
    return [(e.partition, e.row) for e in result.entities]


async def test_a_table_that_was_never_written_is_empty(table: Table) -> None:
    result = await table.query()
    assert result.entities == []
    assert result.next is None
    assert [e async for e in table.scan()] == []


async def test_rows_come_in_code_point_order(table: Table) -> None:
    await fill(table, ["p"], ROWS)
    assert [row for _, row in await keys(table)] == ROWS == sorted(ROWS)


async def test_partitions_come_in_code_point_order(table: Table) -> None:
    for partition in random.Random(2).sample(ROWS, len(ROWS)):
        await table.insert(Entity(partition, "r", {}))
    assert [partition for partition, _ in await keys(table)] == ROWS


RANGES: dict[str, tuple[KeyRange, Callable[[str], bool]]] = {
    "every": (EVERY_KEY, lambda key: True),
    "only": (KeyRange.only("a"), lambda key: key == "a"),
    "only a slash": (KeyRange.only("/"), lambda key: key == "/"),
    "prefix": (KeyRange.prefix("a"), lambda key: key.startswith("a")),
    "prefix dot": (KeyRange.prefix("."), lambda key: key.startswith(".")),
    "prefix tilde": (KeyRange.prefix("~"), lambda key: key.startswith("~")),
    "empty prefix": (KeyRange.prefix(""), lambda key: True),
    "prefix that nothing has": (KeyRange.prefix("ax"), lambda key: False),
    "from": (KeyRange(start="Z"), lambda key: key >= "Z"),
    "up to": (KeyRange(stop="Z"), lambda key: key < "Z"),
    "half open": (KeyRange("/", "["), lambda key: "/" <= key < "["),
    "between": (KeyRange.between("/", "["), lambda key: "/" <= key <= "["),
    "between beyond the BMP": (
        KeyRange.between("\uffee", "\U0001f389"),
        lambda key: key >= "\uffee",
    ),
    "upside down": (KeyRange("z", "a"), lambda key: False),
}


async def test_a_range_of_rows_returns_the_rows_in_it(table: Table) -> None:
    await fill(table, ["o", "p", "q"], ROWS)
    for name, (within, fits) in RANGES.items():
        expected = [("p", row) for row in ROWS if fits(row)]
        assert await keys(table, KeyRange.only("p"), within) == expected, name


async def test_ranges_of_partitions_and_rows_are_combined(table: Table) -> None:
    partitions = ["2026-01-01", "2026-01-01,5,000001", "2026-01-02", "2026-01-03"]
    await fill(table, partitions, ["email:a", "email:b", "guid:1"])
    found = await keys(table, KeyRange("2026-01-01", "2026-01-03"), KeyRange.prefix("email:"))
    assert found == [
        (partition, row) for partition in partitions[:3] for row in ("email:a", "email:b")
    ]
    assert await keys(table, KeyRange.prefix("2026-01-01,")) == [
        (partitions[1], row) for row in ("email:a", "email:b", "guid:1")
    ]


async def in_slices(table: Table, limit: int, where: Filter | None = None) -> list[Entity]:
    """Return what a query finds slice by slice; each but the last must be as long as the limit."""
    found: list[Entity] = []
    after = None
    for _ in range(50):
        result = await table.query(where=where, limit=limit, after=after)
        assert len(result.entities) <= limit
        found += result.entities
        after = result.next
        if after is None:
            return found
        assert len(result.entities) == limit
    raise AssertionError("the query has no end")


async def test_each_slice_begins_where_the_last_one_ended(table: Table) -> None:
    await fill(table, ["p", "q", "r"], [f"{number:02}" for number in range(15)])
    everything = await keys(table)
    assert len(everything) == 45
    for limit in (1, 7, 100, 1000):
        found = await in_slices(table, limit)
        assert [(e.partition, e.row) for e in found] == everything


async def test_slices_of_a_filtered_query_are_full_until_the_end(table: Table) -> None:
    await table.apply([Insert(Entity("p", f"{n:02}", {"N": n})) for n in range(60)])
    for limit in (5, 1000):
        found = await in_slices(table, limit, ge("N", 40))
        assert [e.properties["N"] for e in found] == list(range(40, 60))


async def test_exactly_as_many_as_the_limit_is_the_end(table: Table) -> None:
    await table.apply([Insert(Entity("p", f"{n:02}", {})) for n in range(10)])
    result = await table.query(KeyRange.only("p"), limit=10)
    assert len(result.entities) == 10
    assert result.next is None


async def test_what_changes_between_pages_neither_repeats_nor_hides_the_rest(table: Table) -> None:
    await fill(table, ["p"], [f"{number:02}" for number in range(0, 20, 2)])
    first = await table.query(KeyRange.only("p"), limit=5)
    assert [e.row for e in first.entities] == ["00", "02", "04", "06", "08"]
    await table.insert(Entity("p", "01", {}))  # before the point: not seen
    await table.insert(Entity("p", "11", {}))  # behind it: seen
    await table.delete("p", "08")  # the point itself
    await table.delete("p", "12")
    rest = await table.query(KeyRange.only("p"), after=first.next)
    assert [e.row for e in rest.entities] == ["10", "11", "14", "16", "18"]


async def test_a_scan_goes_over_all_pages(table: Table) -> None:
    for start in range(0, 2100, 100):
        await table.apply(
            [Insert(Entity("p", f"{n:04}", {"N": n})) for n in range(start, start + 100)]
        )
    found = [e.properties["N"] async for e in table.scan(KeyRange.only("p"))]
    assert found == list(range(2100))


async def test_a_made_up_continuation_token_is_refused(table: Table) -> None:
    await table.insert(Entity("p", "r", {}))
    for token in ("", "nonsense", "%%%", "WyJhIl0", "bnVsbA"):
        with pytest.raises(InvalidValue):
            await table.query(after=token)


# -- filters ---------------------------------------------------------------------------------

COMPARISONS: list[Callable[[str, Any], Filter]] = [eq, ne, lt, le, gt, ge]
NOON = datetime(2026, 6, 1, 12, 0, 0, 500_000, tzinfo=UTC)
VALUES: list[Value] = [
    "", "a", "A", "b", "é", "한", "\uffee", "🎉", "it's", 'say "x"', "x" * 1024, "x" * 1025,
    "2026-06-01T12:00:00.500000Z", "1", "true", "YQ==",
    0, 1, 2, -5, 2**53 + 1, 2**63 - 1, -(2**63),
    0.0, 1.0, 1.5, -2.5, 1e300,
    True, False,
    NOON, NOON.replace(microsecond=500_001), NOON.replace(year=1999),
    b"", b"a", b"\x00\xff",
]  # fmt: skip


async def test_filters_agree_with_their_definition_for_every_type(table: Table) -> None:
    rows = {f"{number:03}": {"V": value} for number, value in enumerate(VALUES)}
    await table.apply([Insert(Entity("p", row, props)) for row, props in rows.items()])
    await table.insert(Entity("p", "zzz", {"Other": 1}))  # has no V at all
    for compare, value in itertools.product(COMPARISONS, VALUES):
        if isinstance(value, bytes) or (compare not in (eq, ne) and isinstance(value, bool)):
            continue
        if isinstance(value, str) and len(value) > 1024:
            continue
        where = compare("V", value)
        expected = [row for row, properties in rows.items() if matches(where, properties)]
        result = await table.query(KeyRange.only("p"), where=where)
        assert [e.row for e in result.entities] == expected, f"{where}"


async def test_filters_can_be_joined(table: Table) -> None:
    people: list[dict[str, Value]] = [
        {"Age": age, "Verified": verified, "Name": name}
        for age in (20, 40, 60)
        for verified in (True, False)
        for name in ("Ann", "Bob")
    ]
    await table.apply(
        [Insert(Entity("p", f"{n:02}", properties)) for n, properties in enumerate(people)]
    )
    for where in (
        eq("Verified", True) & gt("Age", 20),
        eq("Name", "Ann") | eq("Age", 60),
        (eq("Name", "Ann") | eq("Age", 60)) & eq("Verified", False),
        (eq("Name", "Ann") & eq("Age", 60)) | (eq("Name", "Bob") & eq("Age", 20)),
        ge("Age", 20) & le("Age", 40) & ne("Name", "Bob") & ne("Verified", True),
    ):
        expected = [f"{n:02}" for n, properties in enumerate(people) if matches(where, properties)]
        result = await table.query(KeyRange.only("p"), where=where)
        assert [e.row for e in result.entities] == expected
        assert 0 < len(expected) < len(people)


async def test_a_property_may_be_named_like_a_word_of_the_query_language(table: Table) -> None:
    names = ("and", "or", "not", "select", "null", "true", "eq", "row", "properties", "_x")
    await table.insert(Entity("p", "r", dict.fromkeys(names, 1)))
    for name in names:
        assert len((await table.query(where=eq(name, 1))).entities) == 1
