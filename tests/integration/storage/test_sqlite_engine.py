"""What is particular to the embedded engine."""

import asyncio
import resource
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from postroom.storage import (
    AlreadyExists,
    EngineTooOld,
    Entity,
    Insert,
    KeyRange,
    Operation,
    SchemaTooNew,
    Store,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
    Upsert,
    open_store,
)
from postroom.storage.sqlite import connection, schema


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def run_python(program: str, *arguments: str) -> str:
    """Run a program in a separate process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def memory() -> int:
    """What this process has in memory now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


# -- durability --------------------------------------------------------------------------------


async def test_writes_are_forced_to_the_disk(tmp_path: Path) -> None:
    opened = connection.open_connection(tmp_path / "store.db")
    assert opened.pragma("journal_mode") == "wal"
    assert opened.pragma("synchronous") == 2  # FULL


async def test_a_write_that_returned_survives_sigkill(tmp_path: Path) -> None:
    program = """
        import asyncio, os, signal, sys
        from postroom.storage import Entity, open_store

        async def main(url):
            store = await open_store(url)
            for number in range(50):
                await store.table("people").insert(Entity("p", f"{number:02}", {}))
            os.write(1, b"written")
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main(sys.argv[1]))
    """
    url = url_of(tmp_path / "store.db")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", textwrap.dedent(program), url],
        capture_output=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == (b"written", -9)
    async with await open_store(url) as store:
        assert len((await store.table("people").query()).entities) == 50


async def test_writers_of_one_process_share_commits(tmp_path: Path) -> None:
    """64 tasks that put at once need far fewer transactions than puts."""
    path = tmp_path / "store.db"
    async with await open_store(url_of(path)) as store:
        queue = store.queue("q")
        await queue.put("first")
        before = changes_seen_by_another_connection(path)
        await asyncio.gather(*(queue.put("x") for _ in range(64)))
        assert changes_seen_by_another_connection(path) - before <= 8
        assert (await queue.info()).length == 65


def changes_seen_by_another_connection(path: Path) -> int:
    """The number of commits, from the change counter that WAL keeps in its index header."""
    return int.from_bytes((path.parent / f"{path.name}-shm").read_bytes()[8:12], sys.byteorder)


async def test_one_job_that_fails_does_not_harm_the_others_of_its_group(tmp_path: Path) -> None:
    async with await open_store(url_of(tmp_path / "store.db")) as store:
        table = store.table("people")
        await table.insert(Entity("p", "taken", {}))

        def batch(number: int) -> list[Operation]:
            fits: Operation = Upsert(Entity("p", f"{number:02}", {}))
            fails: Operation = Insert(Entity("p", "taken", {}))
            return [fits, fails] if number % 3 == 0 else [fits]

        answers = await asyncio.gather(
            *(table.apply(batch(number)) for number in range(30)), return_exceptions=True
        )
        for number, answer in enumerate(answers):
            assert isinstance(answer, AlreadyExists) == (number % 3 == 0)
        rows = [e.row for e in (await table.query(KeyRange.only("p"))).entities]
        assert rows == [f"{number:02}" for number in range(30) if number % 3] + ["taken"]


# -- bell ----------------------------------------------------------------------------------


async def test_another_process_learns_of_a_message_at_once_and_idles_meanwhile(
    tmp_path: Path,
) -> None:
    program = """
        import asyncio, sys, time
        from postroom.storage import open_store
        from postroom.storage.sqlite import bell

        async def main(url):
            async with await open_store(url) as store:
                queue = store.queue("q")
                await queue.wait(0)
                used = time.process_time()
                await queue.wait(2)
                print("idle", time.process_time() - used, flush=True)
                bell._LOOK_AGAIN = 3600  # only the bell tells it
                for _ in range(10):
                    assert await queue.wait(60)
                    [message] = await queue.receive(lease=30)
                    await queue.delete(message)
                    print("seen", message.body, flush=True)

        asyncio.run(main(sys.argv[1]))
    """
    url = url_of(tmp_path / "store.db")
    async with await open_store(url) as store:
        waiter = await asyncio.create_subprocess_exec(
            sys.executable, "-c", textwrap.dedent(program), url, stdout=subprocess.PIPE
        )
        assert waiter.stdout is not None
        idle = float((await waiter.stdout.readline()).split()[1])
        for number in range(10):
            await asyncio.sleep(0.02)
            await store.queue("q").put(str(number))
            assert await waiter.stdout.readline() == f"seen {number}\n".encode()
        assert await waiter.wait() == 0
    assert idle < 0.1  # of two seconds


async def test_a_message_whose_bell_was_never_rung_is_still_found(tmp_path: Path) -> None:
    """A process that dies between its commit and the bell."""
    path = tmp_path / "store.db"
    async with await open_store(url_of(path)) as store:
        await store.queue("q").put("makes the queue")
        await store.queue("q").purge()
        waiting = asyncio.create_task(store.queue("q").wait(30))
        await asyncio.sleep(0.3)
        silent = sqlite3.connect(path)
        silent.execute(
            "INSERT INTO queue_message (queue, visible_at, enqueued_at, body, properties)"
            " VALUES (1, 0, 0, 'silent', '{}')"
        )
        silent.commit()
        silent.close()
        async with asyncio.timeout(60):
            assert await waiting


# -- what can be wrong with the file -----------------------------------------------------------


async def test_a_full_disk_is_reported_and_nothing_is_half_written(tmp_path: Path) -> None:
    program = """
        import asyncio, resource, sys
        from postroom.storage import Entity, Insert, StoreFull, open_store

        async def main(url):
            async with await open_store(url) as store:
                table = store.table("people")
                await table.insert(Entity("p", "first", {}))
                resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
                for number in range(1000):
                    try:
                        await table.apply(
                            [
                                Insert(Entity(f"p{number:04}", f"{row:02}", {"A": "x" * 1000}))
                                for row in range(20)
                            ]
                        )
                    except StoreFull as exc:
                        print(number, exc)
                        break
                found = await table.query()
                assert len(found.entities) == 1 + 20 * number, len(found.entities)
                try:
                    await store.container("bodies").put("large", b"x" * 2_000_000)
                except StoreFull:
                    print("blob")
                resource.setrlimit(
                    resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                )
                await table.insert(Entity("p", "room again", {}))

        asyncio.run(main(sys.argv[1]))
    """
    answer = run_python(program, url_of(tmp_path / "store.db"))
    number, message = answer.split(maxsplit=1)
    assert 0 < int(number) < 1000
    assert "no space left" in message
    assert "blob" in message


def test_a_file_that_may_not_be_written_is_refused() -> None:
    """Root may write everything, so the process that tries gives up its rights first."""
    program = """
        import asyncio, os, sys
        from postroom.storage import AccessDenied, open_store
        import postroom.storage.sqlite

        async def main(url):
            async with await open_store(url):
                pass
            path = url.removeprefix("sqlite:///")
            os.chmod(path, 0o444)
            os.chmod(os.path.dirname(path), 0o555)
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            try:
                await open_store(url)
            except AccessDenied as exc:
                print(exc)

        asyncio.run(main(sys.argv[1]))
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "inside", "store.db")
        answer = run_python(program, url_of(path))
        path.parent.chmod(0o755)
    assert "cannot be written" in answer
    assert str(path) in answer


@pytest.mark.parametrize(
    "content", [b"this is no database, " * 500, b"SQLite format 3\0" + b"x" * 9000]
)
async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"store\.db"):
        await open_store(url_of(path))
    assert path.read_bytes() == content


async def test_a_store_that_another_program_has_locked_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.1)
    path = tmp_path / "store.db"
    await (await open_store(url_of(path))).close()
    # Not Python's own SQLite: locks of two libraries in one process do not meet.
    other = connection.open_connection(path)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreUnavailable, match=r"store\.db is locked by another program"):
            await open_store(url_of(path))
    finally:
        other.close()
    await (await open_store(url_of(path))).close()


async def test_a_damaged_page_is_reported_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with await open_store(url_of(path)) as store:
        for start in range(0, 3000, 100):
            await store.table("people").apply(
                [
                    Insert(Entity("p", f"{n:04}", {"A": "x" * 200}))
                    for n in range(start, start + 100)
                ]
            )
    data = bytearray(path.read_bytes())
    data[40_000:400_000] = b"\xff" * 360_000
    path.write_bytes(data)
    with pytest.raises(StoreDamaged, match="backup"):
        async with await open_store(url_of(path)) as store:
            await store.table("people").query()


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (a)")
    other.commit()
    other.close()
    with pytest.raises(StoreDamaged, match="not a store of Postroom"):
        await open_store(url_of(path))
    names = sqlite3.connect(path).execute("SELECT name FROM sqlite_master").fetchall()
    assert names == [("theirs",)]


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with await open_store(url_of(path)):
        pass
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    newer.commit()
    newer.close()
    with pytest.raises(SchemaTooNew, match="upgrade Postroom"):
        await open_store(url_of(path))


async def test_an_older_schema_is_upgraded_and_keeps_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(tmp_path / "store.db")
    async with await open_store(url) as store:
        await store.table("people").insert(Entity("p", "r", {"A": 1}))
    steps = (*schema.STEPS, lambda c: c.execute("CREATE TABLE added_by_the_next_version (a)"))
    monkeypatch.setattr(schema, "STEPS", steps)
    monkeypatch.setattr(schema, "VERSION", len(steps))
    async with await open_store(url) as store:
        assert (await store.info()).schema_version == len(steps)
        assert await store.table("people").get("p", "r") is not None


async def test_a_file_without_a_place_for_bytes_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with await open_store(url_of(path)) as store:
        await store.table("people").insert(Entity("p", "old", {"A": 1}))
    older = sqlite3.connect(path)
    older.execute("ALTER TABLE t_people DROP COLUMN packed")
    older.execute("PRAGMA user_version = 1")
    older.commit()
    older.close()
    async with await open_store(url_of(path)) as store:
        table = store.table("people")
        await table.merge(Entity("p", "old", {"B": b"bytes"}))
        found = await table.get("p", "old")
        assert found is not None
        assert found.properties == {"A": 1, "B": b"bytes"}


async def test_an_upgrade_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(tmp_path / "store.db")
    async with await open_store(url):
        pass
    steps = (*schema.STEPS, lambda c: c.execute("CREATE TABLE half (a); CREATE TABLE queue (a)"))
    with monkeypatch.context() as newer:
        newer.setattr(schema, "STEPS", steps)
        newer.setattr(schema, "VERSION", len(steps))
        with pytest.raises(StoreError):
            await open_store(url)
    names = sqlite3.connect(tmp_path / "store.db").execute("SELECT name FROM sqlite_master")
    assert ("half",) not in names.fetchall()
    async with await open_store(url) as store:
        assert (await store.info()).schema_version == schema.VERSION


async def test_an_sqlite_that_corrupts_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SAFE_VERSION", 9_000_000)
    with pytest.raises(EngineTooOld, match="apsw"):
        await open_store(url_of(tmp_path / "store.db"))


async def test_an_upload_that_a_crash_interrupted_is_removed_after_a_day(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with await open_store(url_of(path)):
        pass
    crashed = sqlite3.connect(path)
    for version, started_at in ((1, 0), (2, time.time_ns() // 1000)):
        crashed.execute("INSERT INTO upload VALUES (?, ?)", (version, started_at))
        crashed.execute("INSERT INTO blob_piece VALUES (?, 0, x'00')", (version,))
    crashed.commit()
    async with await open_store(url_of(path)):
        pass
    assert crashed.execute("SELECT version FROM blob_piece").fetchall() == [(2,)]
    crashed.close()


async def test_the_folder_of_a_new_store_is_created(tmp_path: Path) -> None:
    async with await open_store(url_of(tmp_path / "a" / "b" / "store.db")) as store:
        assert (await store.info()).location.endswith("a/b/store.db")


async def test_a_path_with_three_slashes_starts_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with await open_store("sqlite:///here.db"):
        assert (tmp_path / "here.db").exists()


async def test_a_missing_table_is_empty_while_others_are_created(
    tmp_path: Path,
) -> None:
    async def make(store: Store) -> None:
        for number in range(200):
            await store.table(f"made{number}").insert(Entity("a", "b", {}))

    async def look(store: Store, reader: int) -> None:
        for number in range(300):
            missing = await store.table(f"missing{reader}x{number}").query()
            assert missing.entities == []

    async with await open_store(url_of(tmp_path / "store.db")) as store:
        await asyncio.gather(make(store), *(look(store, reader) for reader in range(6)))


async def test_memory_stays_flat_while_a_long_table_is_scanned(tmp_path: Path) -> None:
    async with await open_store(url_of(tmp_path / "store.db")) as store:
        table = store.table("people")
        for start in range(0, 30_000, 100):
            await table.apply(
                [
                    Insert(Entity("p", f"{n:06}", {"A": "x" * 2000}))
                    for n in range(start, start + 100)
                ]
            )
        async for _ in table.scan(rows=KeyRange(stop="010000")):
            pass  # until the caches of all readers are full
        before = peak = memory()
        count = 0
        async for _ in table.scan():
            count += 1
            if count % 500 == 0:
                peak = max(peak, memory())
        assert count == 30_000
        assert peak - before < 20_000_000  # the rows alone have 60 MB
