"""Stores that are not there, or only in part: refused, and never replaced by an empty one."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from postroom.services.operations.store_copy import PROGRESS
from postroom.storage import Entity, open_store
from tests.services.postroom import CommandLine
from tests.services.waiting import BUSY, accepts_connections, free_ports, wait_until


@pytest.mark.timeout(90)
def test_a_deleted_store_is_noticed_and_not_replaced(tmp_path: Path) -> None:
    [port] = free_ports(1)
    line = CommandLine(tmp_path, {"POSTROOM_PORT": str(port)})
    line.ok("list", "create", "news", "--description", "News", "--from", "news@example.com")
    database = tmp_path / "postroom-data/postroom.db"

    def status() -> str:
        try:
            answer = httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=60)
        except httpx2.TransportError:
            return "it is starting"
        return str(answer.json()["status"])

    def is_ready() -> bool:
        return status() == "ok"

    def is_noticed() -> bool:
        return status() == "the file of the store is missing"

    up = line.start("up")
    try:
        wait_until(lambda: accepts_connections(port), seconds=30, what="the pages")
        wait_until(is_ready, seconds=30, what="/readyz")
        database.rename(tmp_path / "moved.db")

        wait_until(is_noticed, seconds=30, what="/readyz")
        assert "was deleted: restore it from a backup" in line.fails("list", "ls")
        assert not database.exists()
        assert up.poll() is None
        (tmp_path / "moved.db").rename(database)
        wait_until(is_ready, seconds=20, what="/readyz")
        assert "news" in line.ok("list", "ls")
    finally:
        up.terminate()
        up.communicate(timeout=30 * BUSY)


def test_a_half_finished_copy_is_refused_until_it_is_finished(tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    source, target = f"sqlite:///{tmp_path}/source.db", f"sqlite:///{tmp_path}/target.db"
    create = ("list", "create", "news", "--description", "News", "--from", "news@example.com")
    line.ok(*create, store=source)

    async def begin() -> None:
        async with await open_store(source) as old, await open_store(target) as new:
            location = (await old.info()).location
            await new.table(PROGRESS).upsert(Entity("copy", "source", {"Location": location}))

    asyncio.run(begin())
    assert "holds an unfinished copy of another one" in line.fails("list", "ls", store=target)
    line.ok("store", "copy", source, target)
    assert "news" in line.ok("list", "ls", store=target)
