"""Property values and keys: what goes in comes out, of the same type, on every engine."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from postroom.storage import Entity, KeyRange, Merge, Table, TooLarge, Value

VALUES: dict[str, Value] = {
    "empty text": "",
    "text": "plain",
    "text in many scripts": "Ünïcödé 한국어 русский עברית 🎉 \u2028 \ufeff",
    "text with control characters": "tab\t line\n return\r bell\x07 escape\x1b delete\x7f",
    "text that looks like JSON": '{"a": "\\u0041", \'b\'}',
    "text that looks like a timestamp": "2026-11-15T07:28:20.000000Z",
    "text at the length that filters see": "é" * 1024,
    "longer text": "é" * 1025,
    "very long text": "x" * 60_000,
    "very long text of many bytes": "한" * 20_000,
    "zero": 0,
    "small integer": 1,
    "negative integer": -1,
    "integer over 32 bits": 2**31,
    "integer over 53 bits": 2**53 + 1,
    "largest integer": 2**63 - 1,
    "smallest integer": -(2**63),
    "true": True,
    "false": False,
    "zero float": 0.0,
    "whole float": 1.0,
    "float": 0.1,
    "tiny float": 5e-324,
    "huge float": 1.7976931348623157e308,
    "round huge float": 1e300,
    "empty bytes": b"",
    "bytes": bytes(range(256)),
    "long bytes": b"\xff\x00" * 30_000,
    "timestamp": datetime(2026, 11, 15, 7, 28, 20, 123_456, tzinfo=UTC),
    "timestamp on the second": datetime(2026, 11, 15, 7, 28, 20, tzinfo=UTC),
    "early timestamp": datetime(1601, 1, 1, tzinfo=UTC),
    "late timestamp": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
}


async def test_every_value_keeps_its_type(table: Table) -> None:
    for name, value in VALUES.items():
        await table.insert(Entity("p", name, {"Value": value, "Other": "x"}))
        found = await table.get("p", name)
        assert found is not None
        assert found.properties == {"Value": value, "Other": "x"}, name
        assert type(found.properties["Value"]) is type(value), name


async def test_all_kinds_of_values_fit_into_one_entity(table: Table) -> None:
    properties = {f"P{number}": value for number, value in enumerate(VALUES.values())}
    await table.insert(Entity("p", "r", properties))
    found = await table.get("p", "r")
    assert found is not None
    assert found.properties == properties


async def test_a_timestamp_of_another_time_zone_is_the_same_instant_in_utc(table: Table) -> None:
    seoul = timezone(timedelta(hours=9))
    await table.insert(Entity("p", "r", {"At": datetime(2026, 1, 1, 8, 30, tzinfo=seoul)}))
    found = await table.get("p", "r")
    assert found is not None
    at = found.properties["At"]
    assert at == datetime(2025, 12, 31, 23, 30, tzinfo=UTC)
    assert isinstance(at, datetime)
    assert at.utcoffset() == timedelta(0)


CHANGES: list[tuple[Value, Value]] = [
    ("text", datetime(2026, 1, 1, tzinfo=UTC)),
    (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00.000000Z"),
    (1, 1.0),
    (1.0, 1),
    (b"bytes", "Ynl0ZXM="),
    ("x" * 60_000, "short"),
    ("short", "x" * 60_000),
    ("x" * 60_000, b"x" * 60_000),
    (b"x" * 60_000, "x" * 60_000),
    (True, 1),
]


async def test_merging_changes_the_type_of_a_property(table: Table) -> None:
    for number, (old, new) in enumerate(CHANGES):
        row = str(number)
        await table.insert(Entity("p", row, {"Changed": old, "Kept": old}))
        await table.merge(Entity("p", row, {"Changed": new}))
        found = await table.get("p", row)
        assert found is not None
        assert found.properties == {"Changed": new, "Kept": old}
        assert {name: type(value) for name, value in found.properties.items()} == {
            "Changed": type(new),
            "Kept": type(old),
        }


async def test_a_merge_cannot_make_an_entity_too_large(table: Table) -> None:
    half = {f"A{number}": b"x" * 60_000 for number in range(9)}
    await table.insert(Entity("p", "r", half))
    with pytest.raises(TooLarge):
        await table.merge(Entity("p", "r", {f"B{number}": b"x" * 60_000 for number in range(9)}))
    with pytest.raises(TooLarge):
        await table.apply(
            [Merge(Entity("p", "r", {f"C{number}": number for number in range(250)}))]
        )
    found = await table.get("p", "r")
    assert found is not None
    assert found.properties == half


async def test_an_entity_of_almost_a_megabyte_fits(table: Table) -> None:
    properties: dict[str, Value] = {f"P{number}": "x" * 65_000 for number in range(15)}
    await table.insert(Entity("p", "r", properties))
    found = await table.get("p", "r")
    assert found is not None
    assert found.properties == properties


KEYS = [
    " ",
    "email:o'brien+tag@example.com",
    "a/b\\c#d?e%f",
    "100%25",
    "quotes \" and 'single' and `back`",
    "semi;colon,comma&ampersand=equals",
    "Ünïcödé",
    "한국어",
    "עברית",
    "🎉",
    "\ue000\uffff\U0010ffff\ufffc\ufffd",
    "x" * 512,
    "한" * 341,
    "..",
    "$filter",
    "(1,'2')",
    "a  b ",
    "NULL",
]


async def test_every_printable_key_is_kept(table: Table) -> None:
    etags = {key: await table.insert(Entity(key, key, {"A": 1})) for key in KEYS}
    for key, first in etags.items():
        assert await table.get(key, key) == Entity(key, key, {"A": 1}, first)
        found = await table.query(KeyRange.only(key), KeyRange.only(key))
        assert [(e.partition, e.row) for e in found.entities] == [(key, key)]
        etag = await table.replace(Entity(key, key, {"A": 2}), first)
        etag = await table.merge(Entity(key, key, {"A": 3}), etag)
        await table.delete(key, key, etag)
        assert await table.get(key, key) is None


async def test_keys_that_differ_in_case_or_form_are_different(table: Table) -> None:
    for row in ("a", "A", "é", "e\u0301", "a ", " a"):
        await table.insert(Entity("p", row, {"Row": row}))
    result = await table.query(KeyRange.only("p"))
    assert {e.row: e.properties["Row"] for e in result.entities} == {
        row: row for row in ("a", "A", "é", "e\u0301", "a ", " a")
    }
