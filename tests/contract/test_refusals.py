"""Bad requests get the same error on every engine, and nothing is written.

`storage/checked.py` refuses them, in front of every engine. So all of them are tried on one engine,
and a few on each.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, cast

import pytest

from postroom.storage import (
    Delete,
    Entity,
    Insert,
    InvalidBatch,
    InvalidKey,
    InvalidName,
    InvalidRequest,
    InvalidValue,
    KeyRange,
    MessageToPut,
    Store,
    Table,
    TooLarge,
    eq,
    gt,
)


class Colour(StrEnum):
    RED = "red"


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "azure"], indirect=True)
async def test_requests_to_every_engine_are_checked(store: Store) -> None:
    table, queue, blobs = store.table("people"), store.queue("q"), store.container("bodies")
    with pytest.raises(InvalidKey):
        await table.insert(Entity("p", "", {}))
    with pytest.raises(TooLarge):
        await table.apply([Insert(Entity("p", "r", {"Broken": "x" * 65_001}))])
    with pytest.raises(InvalidValue):
        await table.query(limit=0)
    with pytest.raises(InvalidName):
        store.table("Upper")
    with pytest.raises(TooLarge):
        await queue.put("x" * 48_001)
    with pytest.raises(InvalidValue):
        await queue.receive(lease=0)
    with pytest.raises(InvalidName):
        await blobs.put("a/../b", b"")
    with pytest.raises(InvalidValue):
        await store.acquire_lease("scheduler", seconds=0)
    assert await store.tables() == []
    assert await store.queues() == []


@pytest.mark.parametrize(
    "key",
    ["", "a\nb", "a\x00", "\x7f", "\x9f", "\ud800", "x" * 513, "한" * 342, "/" * 257, "🎉" * 74],
    ids=ascii,
)
async def test_a_key_that_cannot_be_kept_everywhere_is_refused(table: Table, key: str) -> None:
    for partition, row in ((key, "r"), ("p", key)):
        with pytest.raises(InvalidKey):
            await table.insert(Entity(partition, row, {}))
        with pytest.raises(InvalidKey):
            await table.get(partition, row)
        with pytest.raises(InvalidKey):
            await table.delete(partition, row)
    assert (await table.query()).entities == []


@pytest.mark.parametrize("key", [None, 1, b"bytes"])
async def test_a_key_must_be_text(table: Table, key: Any) -> None:
    with pytest.raises(InvalidKey):
        await table.insert(Entity("p", key, {}))
    with pytest.raises(InvalidKey):
        await table.get(key, "r")
    if key is not None:  # which means 'no bound'
        with pytest.raises(InvalidKey):
            await table.query(KeyRange(start=key))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, InvalidValue),
        ([], InvalidValue),
        ({"nested": 1}, InvalidValue),
        (Colour.RED, InvalidValue),
        (1 + 2j, InvalidValue),
        (2**63, InvalidValue),
        (-(2**63) - 1, InvalidValue),
        (float("nan"), InvalidValue),
        (float("inf"), InvalidValue),
        (datetime(2026, 1, 1), InvalidValue),
        (datetime(1600, 12, 31, tzinfo=UTC), InvalidValue),
        ("NUL\x00", InvalidValue),
        ("half \ud83c pair", InvalidValue),
        ("x" * 65_001, TooLarge),
        ("한" * 30_000, TooLarge),
        (b"x" * 65_001, TooLarge),
    ],
    ids=lambda value: ascii(value)[:30],
)
async def test_a_value_of_a_wrong_type_or_range_is_refused(
    table: Table, value: Any, error: type[InvalidRequest]
) -> None:
    with pytest.raises(error, match="Broken"):
        await table.insert(Entity("p", "r", {"Fine": 1, "Broken": value}))
    with pytest.raises(error, match="Broken"):
        await table.apply(
            [Insert(Entity("p", "a", {})), Insert(Entity("p", "b", {"Broken": value}))]
        )
    assert (await table.query()).entities == []


@pytest.mark.parametrize(
    "name", ["", "a b", "1st", "a-b", "é", "x" * 256, "PartitionKey", "etag", "Timestamp", "@"]
)
async def test_a_property_name_that_cannot_be_kept_everywhere_is_refused(
    table: Table, name: str
) -> None:
    with pytest.raises(InvalidName):
        await table.insert(Entity("p", "r", {name: 1}))
    with pytest.raises(InvalidName):
        await table.query(where=eq(name, 1))


async def test_properties_are_a_mapping(table: Table) -> None:
    with pytest.raises(InvalidValue):
        await table.insert(Entity("p", "r", cast(Any, [("A", 1)])))


async def test_an_entity_over_one_megabyte_is_refused(table: Table) -> None:
    large = {f"P{number}": "x" * 65_000 for number in range(17)}
    with pytest.raises(TooLarge):
        await table.insert(Entity("p", "r", large))
    with pytest.raises(TooLarge):
        await table.insert(Entity("p", "r", {f"P{number}": number for number in range(251)}))
    assert (await table.query()).entities == []


async def test_a_batch_of_101_is_refused(table: Table) -> None:
    with pytest.raises(InvalidBatch, match="100"):
        await table.apply([Insert(Entity("p", f"{number}", {})) for number in range(101)])
    with pytest.raises(InvalidBatch):
        await table.apply([])
    assert (await table.query()).entities == []


async def test_a_batch_over_two_megabytes_is_refused(table: Table) -> None:
    large = {f"P{number}": b"x" * 65_000 for number in range(15)}
    with pytest.raises(TooLarge, match="batch"):
        await table.apply([Insert(Entity("p", f"{number}", large)) for number in range(3)])
    assert (await table.query()).entities == []
    await table.apply([Insert(Entity("p", f"{number}", large)) for number in range(2)])


async def test_a_batch_over_two_partitions_or_with_a_row_twice_is_refused(table: Table) -> None:
    with pytest.raises(InvalidBatch, match="partition"):
        await table.apply([Insert(Entity("p", "r", {})), Insert(Entity("q", "r", {}))])
    with pytest.raises(InvalidBatch, match="twice"):
        await table.apply([Insert(Entity("p", "r", {})), Delete("p", "r")])
    assert (await table.query()).entities == []


@pytest.mark.parametrize("limit", [0, -1, 1001, 1.5, None, True])
async def test_a_limit_outside_its_range_is_refused(store: Store, limit: Any) -> None:
    with pytest.raises(InvalidValue):
        await store.table("people").query(limit=limit)
    with pytest.raises(InvalidValue):
        await store.container("bodies").list(limit=limit)
    with pytest.raises(InvalidValue):
        await store.queue("q").receive(limit, lease=5)
    with pytest.raises(InvalidValue):
        await store.queue("q").peek(limit)


async def test_a_filter_that_not_every_engine_knows_is_refused(table: Table) -> None:
    with pytest.raises(InvalidValue):
        await table.query(where=gt("Flag", True))
    with pytest.raises(InvalidValue):
        await table.query(where=eq("Data", b"x"))
    with pytest.raises(InvalidValue):
        await table.query(where=eq("Text", "x" * 1025))
    with pytest.raises(InvalidValue):
        await table.query(where=cast(Any, "Age > 3"))
    many = eq("A", 0) | eq("A", 1)
    for number in range(2, 11):
        many = many | eq("A", number)
    with pytest.raises(InvalidValue):
        await table.query(where=many)


async def test_names_that_not_every_engine_knows_are_refused(store: Store) -> None:
    for name in ("", "ab", "Upper", "1abc", "a-b", "x" * 64, "a\n", "ä" * 5, "tables", None):
        with pytest.raises(InvalidName):
            store.table(cast(Any, name))
    for name in (
        "",
        "ab",
        "Upper",
        "a--b",
        "-ab",
        "ab-",
        "x" * 64,
        "a_b",
        "abc\n",
        "postroom-system",
        None,
    ):
        with pytest.raises(InvalidName):
            store.container(cast(Any, name))
    for name in ("", "x" * 256, "a\nb", "\x00", "\ud800", None):
        with pytest.raises(InvalidName):
            store.queue(cast(Any, name))
        with pytest.raises(InvalidName):
            await store.acquire_lease(cast(Any, name), seconds=5)
    for name in (
        "",
        "/a",
        "a/",
        "a//b",
        "a/../b",
        "..",
        ".",
        "a\\b",
        "a.",
        "a./b",
        "\uffff",
        "x" * 1025,
        "a\x00",
    ):
        with pytest.raises(InvalidName):
            await store.container("bodies").put(name, b"")
        with pytest.raises(InvalidName):
            await store.container("bodies").read(name)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (MessageToPut("x" * 48_001), TooLarge),
        (MessageToPut("한" * 16_001), TooLarge),
        (MessageToPut("x" * 47_990, properties={"a": "1234567890"}), TooLarge),
        (MessageToPut("NUL\x00"), InvalidValue),
        (MessageToPut("\ud800"), InvalidValue),
        (MessageToPut(cast(Any, b"bytes")), InvalidValue),
        (MessageToPut("x", delay=-1), InvalidValue),
        (MessageToPut("x", delay=8 * 24 * 3600), InvalidValue),
        (MessageToPut("x", delay=float("nan")), InvalidValue),
        (MessageToPut("x", ttl=0), InvalidValue),
        (MessageToPut("x", properties=cast(Any, {"a": 1})), InvalidValue),
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_a_queue_message_that_cannot_be_kept_everywhere_is_refused_with_its_whole_batch(
    store: Store, message: MessageToPut, error: type[InvalidRequest]
) -> None:
    with pytest.raises(error):
        await store.queue("q").put_many(["fine", message])
    assert await store.queues() == []


async def test_seconds_outside_their_range_are_refused(store: Store) -> None:
    queue = store.queue("q")
    await queue.put("x")
    for lease in (0, -1, 8 * 24 * 3600, float("inf"), float("nan"), cast(Any, "5")):
        with pytest.raises(InvalidValue):
            await queue.receive(lease=lease)
    [message] = await queue.receive(lease=30)
    with pytest.raises(InvalidValue):
        await queue.renew(message, lease=0)
    with pytest.raises(InvalidValue):
        await queue.release(message, delay=-1)
    with pytest.raises(InvalidValue):
        await queue.wait(-1)
    for seconds in (0, 61, float("nan")):
        with pytest.raises(InvalidValue):
            await store.acquire_lease("scheduler", seconds=seconds)


async def test_a_message_that_was_not_received_here_cannot_be_settled(store: Store) -> None:
    queue = store.queue("q")
    await queue.put("x")
    [peeked] = await queue.peek()
    with pytest.raises(InvalidValue, match="receive"):
        await queue.delete(peeked)
    [received] = await queue.receive(lease=30)
    with pytest.raises(InvalidValue, match="other"):
        await store.queue("other").delete(received)


async def test_a_blob_must_consist_of_bytes(store: Store) -> None:
    with pytest.raises(InvalidValue):
        await store.container("bodies").put("a.txt", b"", etag="1", new=True)
