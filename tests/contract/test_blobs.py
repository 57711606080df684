"""Blobs: whole or not at all, in flat memory."""

import hashlib
import resource
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.storage import AlreadyExists, Container, NotFound, StaleETag, Store

MIB = 1024 * 1024


@pytest.fixture
def bodies(store: Store) -> Container:
    return store.container("mailbodies")


async def stream_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize(
    "data", [b"", b"<p>hello</p>", bytes(range(256)) * 4096], ids=["empty", "short", "1 MiB"]
)
async def test_a_blob_is_read_as_it_was_written(bodies: Container, data: bytes) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    etag = await bodies.put("634852858215726983.htm", data)
    assert await bodies.read("634852858215726983.htm") == data
    info = await bodies.info("634852858215726983.htm")
    assert info is not None
    assert (info.name, info.size, info.etag) == ("634852858215726983.htm", len(data), etag)
    assert before < info.modified_at < before + timedelta(seconds=120)


async def test_a_missing_blob(bodies: Container) -> None:
    assert await bodies.info("none.htm") is None
    with pytest.raises(NotFound, match=r"none\.htm"):
        await bodies.read("none.htm")
    with pytest.raises(NotFound):
        await bodies.delete("none.htm")
    listing = await bodies.list()
    assert (listing.blobs, listing.next) == ([], None)
    await bodies.put("other.htm", b"")
    assert await bodies.info("none.htm") is None
    with pytest.raises(NotFound):
        await bodies.read("none.htm")
    with pytest.raises(NotFound):
        await bodies.delete("none.htm")


async def test_a_blob_is_replaced_whole(bodies: Container) -> None:
    first = await bodies.put("a.txt", b"long" * 200_000)
    second = await bodies.put("a.txt", b"short")
    assert await bodies.read("a.txt") == b"short"
    assert first != second


async def test_a_blob_is_written_from_a_stream(bodies: Container) -> None:
    await bodies.put("a.txt", stream_of(b"one ", b"", b"two ", b"x" * 700_000, b" three"))
    assert await bodies.read("a.txt") == b"one two " + b"x" * 700_000 + b" three"


async def test_the_etag_guards_a_replacement(bodies: Container) -> None:
    first = await bodies.put("a.txt", b"1")
    second = await bodies.put("a.txt", b"2", etag=first)
    with pytest.raises(StaleETag):
        await bodies.put("a.txt", b"3", etag=first)
    with pytest.raises(StaleETag):
        await bodies.put("a.txt", b"3", etag="nonsense")
    with pytest.raises(StaleETag):
        await bodies.delete("a.txt", first)
    assert await bodies.read("a.txt") == b"2"
    await bodies.delete("a.txt", second)
    with pytest.raises(NotFound):
        await bodies.put("a.txt", b"4", etag=second)
    assert await bodies.info("a.txt") is None


async def test_a_new_blob_replaces_nothing(bodies: Container) -> None:
    await bodies.put("a.txt", b"first", new=True)
    with pytest.raises(AlreadyExists, match=r"a\.txt"):
        await bodies.put("a.txt", b"second" * 100_000, new=True)
    assert await bodies.read("a.txt") == b"first"


async def test_a_stream_that_breaks_leaves_what_was_there(bodies: Container) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * (2 * MIB)
        raise RuntimeError("the upload was cut off")

    with pytest.raises(RuntimeError, match="cut off"):
        await bodies.put("new.txt", broken())
    assert await bodies.info("new.txt") is None
    await bodies.put("old.txt", b"old")
    with pytest.raises(RuntimeError, match="cut off"):
        await bodies.put("old.txt", broken())
    assert await bodies.read("old.txt") == b"old"
    assert [blob.name for blob in (await bodies.list()).blobs] == ["old.txt"]


async def test_others_see_the_old_content_until_the_last_byte_is_in(
    bodies: Container, other_store: Store
) -> None:
    await bodies.put("a.txt", b"old")
    seen: list[bytes] = []

    async def slow() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * MIB
            seen.append(await other_store.container("mailbodies").read("a.txt"))

    await bodies.put("a.txt", slow())
    assert seen == [b"old"] * 3
    assert len(await other_store.container("mailbodies").read("a.txt")) == 3 * MIB


async def test_a_reader_never_gets_a_mixture_of_two_versions(bodies: Container) -> None:
    await bodies.put("a.bin", b"1" * (20 * MIB))
    reading = bodies.stream("a.bin")
    assert set(await anext(reading)) == set(b"1")
    await bodies.put("a.bin", b"2" * (20 * MIB))
    with pytest.raises(StaleETag):
        await expect_nothing_but(b"1", reading)


async def expect_nothing_but(byte: bytes, reading: AsyncIterator[bytes]) -> None:
    async for piece in reading:
        assert set(piece) == set(byte)


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "azure"], indirect=True)
async def test_a_hundred_megabytes_pass_through_in_flat_memory(bodies: Container) -> None:
    size, piece = 100 * MIB, b"0123456789abcdef" * 65_536
    await bodies.put("warm-up.bin", stream_of(*[piece] * 12))
    async for _ in bodies.stream("warm-up.bin"):
        pass
    before = peak = memory()
    written, read = hashlib.sha256(), hashlib.sha256()

    async def produce() -> AsyncIterator[bytes]:
        nonlocal peak
        for _ in range(size // len(piece)):
            written.update(piece)
            peak = max(peak, memory())
            yield piece

    await bodies.put("large.bin", produce())
    async for part in bodies.stream("large.bin"):
        read.update(part)
        peak = max(peak, memory())
    assert read.digest() == written.digest()
    info = await bodies.info("large.bin")
    assert info is not None
    assert info.size == size
    assert peak - before < 40 * MIB


def memory() -> int:
    """What this process has in memory now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_blobs_are_listed_by_prefix_in_order_and_in_pages(bodies: Container) -> None:
    names = [f"{kind}/{number:02}.txt" for kind in ("a", "b", "c") for number in range(5)]
    for name in reversed(names):
        await bodies.put(name, name.encode())
    assert [b.name for b in (await bodies.list()).blobs] == names
    assert [b.name for b in (await bodies.list("b/")).blobs] == names[5:10]
    assert [b.name for b in (await bodies.list("b/03.txt")).blobs] == ["b/03.txt"]
    found: list[str] = []
    after = None
    for _ in range(10):
        listing = await bodies.list(limit=4, after=after)
        found += [b.name for b in listing.blobs]
        after = listing.next
        if after is None:
            break
        assert len(listing.blobs) == 4
    assert found == names
    sizes = {b.name: b.size for b in (await bodies.list("a")).blobs}
    assert sizes == {name: len(name) for name in names[:5]}


@pytest.mark.parametrize(
    "name", ["plain", "한국어/файл.txt", "a b+c%20&d=e?f#g.htm", "~$'()*,;:@!", "x" * 1000]
)
async def test_every_clean_path_is_a_blob_name(bodies: Container, name: str) -> None:
    await bodies.put(name, b"data")
    assert await bodies.read(name) == b"data"
    assert [b.name for b in (await bodies.list()).blobs] == [name]
    await bodies.delete(name)
    assert (await bodies.list()).blobs == []


async def test_containers_are_listed_kept_apart_and_dropped(store: Store) -> None:
    assert await store.containers() == []
    await store.container("mailbodies").put("a", b"1")
    await store.container("outbox").put("a", b"2")
    assert await store.containers() == ["mailbodies", "outbox"]
    await store.container("outbox").drop()
    await store.container("never-made").drop()
    assert await store.containers() == ["mailbodies"]
    assert await store.container("outbox").info("a") is None
    assert await store.container("mailbodies").read("a") == b"1"
