"""What only the PostgreSQL engine promises, against a server that is stopped and restarted."""

import asyncio
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from postroom.storage import (
    AccessDenied,
    AlreadyExists,
    Batch,
    BulkInsert,
    Delete,
    Entity,
    Finish,
    Insert,
    InvalidStoreUrl,
    KeyRange,
    Lease,
    Merge,
    MessageToPut,
    NotFound,
    Operation,
    Put,
    QueueMessage,
    Replace,
    SchemaTooNew,
    StaleETag,
    Store,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Upsert,
    open_store,
)
from postroom.storage.postgres import batches, connection, errors, queue_state, schema
from tests.services.stores.postgres import PostgresServer
from tests.services.waiting import free_ports

SECRET = "Tr0ub4dor"


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    made = postgres.create_database()
    yield made
    postgres.drop_database(made)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with await open_store(url) as opened:
        yield opened


def ask(url: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as asking:
        cursor = asking.execute(question.encode())
        return cursor.fetchall() if cursor.description else []


# -- what an operator sees --------------------------------------------------------------------


async def test_properties_can_be_queried_with_sql(store: Store, url: str) -> None:
    people = store.table("people")
    await people.insert(Entity("list", "ann", {"Age": 41, "Verified": True}))
    await people.insert(Entity("list", "bob", {"Age": 17, "Verified": False}))

    rows = ask(url, "SELECT row FROM postroom.t_people WHERE (properties->>'Age')::int > 18")

    assert rows == [("ann",)]


async def test_info_names_server_and_database_and_no_password(
    postgres: PostgresServer, url: str
) -> None:
    database = url.rpartition("/")[2]
    async with await open_store(postgres.guarded_url(database)) as store:
        info = await store.info()

    assert info.engine.startswith("PostgreSQL 1")
    assert info.location == f"127.0.0.1:{postgres.port}/{database}"
    assert info.schema_version == schema.VERSION


@pytest.mark.parametrize("length", [61, 62, 63])
async def test_the_longest_table_names_are_kept_apart(store: Store, length: int) -> None:
    names = ["a" * (length - 1) + last for last in "xyz"]
    for name in names:
        await store.table(name).insert(Entity("p", "r", {"Name": name}))

    assert await store.tables() == names
    for name in names:
        found = await store.table(name).get("p", "r")
        assert found is not None
        assert found.properties == {"Name": name}


# -- schema -----------------------------------------------------------------------------------


async def test_a_newer_schema_is_refused_and_left_alone(url: str) -> None:
    await (await open_store(url)).close()
    ask(url, "UPDATE postroom.meta SET version = version + 1")

    with pytest.raises(SchemaTooNew, match=f"version {schema.VERSION + 1}"):
        await open_store(url)

    assert ask(url, "SELECT version FROM postroom.meta") == [(schema.VERSION + 1,)]


async def test_a_database_without_a_place_for_bytes_gets_one(url: str) -> None:
    async with await open_store(url) as store:
        await store.table("people").insert(Entity("p", "old", {"A": 1}))
    ask(url, "ALTER TABLE postroom.t_people DROP COLUMN packed")
    ask(url, "UPDATE postroom.meta SET version = 1")
    async with await open_store(url) as store:
        table = store.table("people")
        await table.merge(Entity("p", "old", {"B": b"bytes"}))
        found = await table.get("p", "old")
        assert found is not None
        assert found.properties == {"A": 1, "B": b"bytes"}


async def test_a_schema_that_is_not_whole_is_refused(url: str) -> None:
    await (await open_store(url)).close()
    ask(url, "DROP TABLE postroom.lease")

    async with await open_store(url) as store:
        with pytest.raises(StoreDamaged, match="lease"):
            await store.acquire_lease("scheduler", seconds=5)


async def test_many_tasks_open_a_fresh_database_at_once(url: str) -> None:
    stores = await asyncio.gather(*(open_store(url) for _ in range(12)))
    tables = [store.table("people") for store in stores]
    etags = await asyncio.gather(
        *(table.insert(Entity("p", f"{n}", {})) for n, table in enumerate(tables))
    )
    for store in stores:
        await store.close()

    assert len(set(etags)) == 12


def test_many_processes_open_a_fresh_database_at_once(url: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from postroom.storage import Entity, open_store\n"
        "async def main():\n"
        "    async with await open_store(sys.argv[1]) as store:\n"
        "        await store.table('people').insert(Entity('p', sys.argv[2], {}))\n"
        "        await store.queue('q').put(sys.argv[2])\n"
        "asyncio.run(main())\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, url, str(n)], stderr=subprocess.PIPE)
        for n in range(6)
    ]
    for process in running:
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told.decode()

    assert ask(url, "SELECT count(*) FROM postroom.t_people") == [(6,)]
    assert ask(url, "SELECT count(*) FROM postroom.message") == [(6,)]


async def test_uploads_that_were_interrupted_are_removed_after_a_day(url: str) -> None:
    await (await open_store(url)).close()
    ask(url, "INSERT INTO postroom.piece SELECT v, 0, 'x' FROM generate_series(1, 3) AS v")
    ask(url, "INSERT INTO postroom.upload VALUES (1, now() - interval '25 hours'), (2, now())")

    await (await open_store(url)).close()

    assert ask(url, "SELECT version FROM postroom.piece ORDER BY version") == [(2,), (3,)]


async def test_an_upload_whose_stream_fails_leaves_nothing(store: Store, url: str) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 300_000
        raise ValueError("the disk of the sender is broken")

    with pytest.raises(ValueError, match="broken"):
        await store.container("bodies").put("a.txt", broken())

    assert ask(url, "SELECT count(*) FROM postroom.piece") == [(0,)]
    assert ask(url, "SELECT count(*) FROM postroom.upload") == [(0,)]


async def test_replaced_and_deleted_blobs_leave_no_pieces(store: Store, url: str) -> None:
    bodies = store.container("bodies")
    for size in (0, 10, 600_000, 5):
        await bodies.put("a.txt", b"x" * size)
    await bodies.put("b.txt", b"x" * 600_000)
    await bodies.delete("b.txt")

    assert ask(url, "SELECT count(*) FROM postroom.piece") == [(1,)]
    await bodies.drop()
    assert ask(url, "SELECT count(*) FROM postroom.piece") == [(0,)]


# -- refusals ---------------------------------------------------------------------------------


def full_text(raised: BaseException) -> str:
    return "".join(traceback.format_exception(raised)) + repr(raised)


async def test_a_wrong_password_is_refused_without_repeating_it(
    postgres: PostgresServer, url: str
) -> None:
    with pytest.raises(AccessDenied) as refused:
        await open_store(postgres.guarded_url(url.rpartition("/")[2], password=SECRET))

    assert SECRET not in full_text(refused.value)


async def test_an_unreachable_server_is_reported_quickly() -> None:
    [port] = free_ports(1)
    began = time.monotonic()

    with pytest.raises(StoreUnavailable) as raised:
        await open_store(f"postgresql://ann:{SECRET}@127.0.0.1:{port}/x")

    assert time.monotonic() - began < 25
    assert SECRET not in full_text(raised.value)


async def test_a_missing_database_is_named(postgres: PostgresServer) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        await open_store(postgres.url("nowhere"))


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://ann:Tr0ub4dor@127.0.0.1:54321",
        "postgresql://ann:Tr0ub4dor@127.0.0.1:port/x",
        "postgresql://ann:Tr0ub4dor@h@127.0.0.1/x",
        "postgresql://ann:p/Tr0ub4dor@127.0.0.1/x",
        "postgresql://ann:5/Tr0ub4dor@127.0.0.1/x",
        "postgresql://ann:p?Tr0ub4dor@127.0.0.1/x",
        "postgresql://ann:Tr0ub4dor%zz@127.0.0.1/x",
        "postgresql://ann:Tr0ub4dor@127.0.0.1/x?colour=red",
        "postgresql://ann:Tr0ub4dor@[127.0.0.1/x",
    ],
)
async def test_a_url_that_cannot_be_read_is_refused_without_repeating_it(wrong: str) -> None:
    with pytest.raises(InvalidStoreUrl) as refused:
        await open_store(wrong)

    assert SECRET not in full_text(refused.value)


async def test_missing_rights_and_read_only_are_access_denied(
    postgres: PostgresServer, url: str
) -> None:
    await (await open_store(url)).close()
    database = url.rpartition("/")[2]
    postgres.execute("DROP ROLE IF EXISTS visitor")
    postgres.execute("CREATE ROLE visitor LOGIN PASSWORD 'x'")
    try:
        ask(url, "GRANT USAGE ON SCHEMA postroom TO visitor")
        ask(url, "GRANT SELECT ON ALL TABLES IN SCHEMA postroom TO visitor")
        ask(url, "SET ROLE visitor; SELECT 1")
        async with await open_store(f"{url}?options=-c%20role%3Dvisitor") as store:
            assert await store.tables() == []
            with pytest.raises(AccessDenied):
                await store.queue("q").put("hello")
            with pytest.raises(AccessDenied):
                await store.table("people").insert(Entity("p", "r", {}))
    finally:
        ask(url, "DROP OWNED BY visitor")
        postgres.execute("DROP ROLE visitor")

    postgres.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    async with await open_store(url) as store:
        with pytest.raises(AccessDenied, match="read-only"):
            await store.queue("q").put("hello")


def test_a_full_disk_is_store_full() -> None:
    full = psycopg.errors.DiskFull('could not extend file "base/5/16397"')

    assert isinstance(errors.translate(full, "host:5432/db"), StoreFull)


async def test_a_closed_store_says_so(url: str) -> None:
    store = await open_store(url)
    waiting = asyncio.create_task(store.queue("q").wait(60))
    await asyncio.sleep(0.2)
    await store.close()
    await store.close()

    for call in (store.tables(), store.table("people").get("p", "r"), waiting):
        with pytest.raises(StoreClosed):
            await call


# -- speed that does not fall with size -------------------------------------------------------


def rows_read(url: str) -> int:
    """How many rows and index entries the server has gone through in the store's tables."""
    tables = "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'postroom'"
    indexes = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'postroom'"
    return sum(int(ask(url, question)[0][0]) for question in (tables, indexes))


async def test_plans_made_for_small_tables_do_not_read_all_of_large_ones(
    store: Store, url: str
) -> None:
    people, queue = store.table("people"), store.queue("q")

    async def every_kind_of_statement(count: int) -> None:
        rows = [f"{n:03}" for n in range(count)]
        await people.apply([Insert(Entity("p", row, {})) for row in rows])
        etags = await people.apply([Replace(Entity("p", row, {})) for row in rows])
        await people.apply([Merge(Entity("p", row, {"A": 1})) for row in rows])
        etags = await people.apply([Upsert(Entity("p", row, {})) for row in rows])
        changes: list[Operation] = [Replace(Entity("p", row, {})) for row in rows[1:]]
        await people.apply([Delete("p", rows[0]), *changes])
        await people.query(KeyRange.only("p"), KeyRange.between("000", "999"), limit=count)
        await people.apply([Delete("p", row) for row in rows[1:]])
        assert set(etags) != {""}
        await queue.put_many(rows)
        await queue.wait(0)
        for message in await queue.receive(count, lease=60):
            await queue.renew(message, lease=60)
            await queue.delete(message)
        await queue.info()
        await asyncio.sleep(1.1)  # the server counts by the second
        await people.get("p", "r")

    # Given plans for tables that were empty when they were made, and that have grown since
    await every_kind_of_statement(5)
    ask(url, "VACUUM ANALYZE")
    await every_kind_of_statement(5)
    ask(
        url,
        "INSERT INTO postroom.t_people SELECT 'p', 'x' || n, 1, '{}'"
        " FROM generate_series(1, 20000) AS n",
    )
    ask(
        url,
        "INSERT INTO postroom.message (id, queue, visible_at, enqueued_at, body)"
        " SELECT gen_random_uuid(), 'other', now(), now(), '' FROM generate_series(1, 20000)",
    )
    await asyncio.sleep(1.1)
    before = rows_read(url)

    # When everything is done once more
    await every_kind_of_statement(20)

    # Then only the rows that it was about have been looked at
    assert rows_read(url) - before < 2000


# -- arrivals ---------------------------------------------------------------------------------


async def test_a_put_wakes_a_waiter_in_another_store(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_state, "LOOK_AGAIN_SECONDS", 3600.0)  # only a notification wakes it
    async with await open_store(url) as other:
        await other.queue("mail/send").wait(0.3)  # listens from now on
        for _ in range(10):
            waiting = asyncio.create_task(other.queue("mail/send").wait(60))
            await asyncio.sleep(0.05)
            await store.queue("mail/send").put("hello")
            assert await waiting
            await store.queue("mail/send").purge()


async def test_a_waiter_notices_a_message_whose_notification_was_lost(
    store: Store, url: str
) -> None:
    await store.queue("q").put("first")
    await store.queue("q").purge()
    waiting = asyncio.create_task(store.queue("q").wait(60))
    await asyncio.sleep(0.2)
    ask(
        url,
        "INSERT INTO postroom.message (id, queue, visible_at, enqueued_at, body)"
        " VALUES (gen_random_uuid(), 'q', now(), now(), 'quiet')",
    )

    assert await waiting


async def test_waiting_costs_next_to_nothing(store: Store, url: str) -> None:
    await store.queue("q").wait(0.1)
    began = time.process_time()
    await asyncio.gather(*(store.queue(f"q{n}").wait(3) for n in range(10)))

    assert time.process_time() - began < 0.8  # ten waiters, three seconds


# -- faults in the middle of work -------------------------------------------------------------


async def test_a_cancelled_call_leaves_the_pool_whole(store: Store) -> None:
    people = store.table("people")
    await people.insert(Entity("p", "r", {}))
    queue = store.queue("q")
    for round_ in range(30):
        calls: list[Awaitable[object]] = [people.get("p", "r") for _ in range(10)]
        calls += [queue.put(f"{round_}") for _ in range(10)]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(random.uniform(0, 0.01))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async with asyncio.timeout(60):
        found = await asyncio.gather(*(people.get("p", "r") for _ in range(50)))
    assert all(found)


async def test_batches_that_cross_each_other_do_not_fail(store: Store, url: str) -> None:
    people = store.table("people")
    rows = [f"{n:02}" for n in range(20)]
    await people.apply([Insert(Entity("p", row, {"N": 0})) for row in rows])

    async def change(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(20):
            mixed = dice.sample(rows, 10)
            for row in mixed[:5]:
                await people.merge(Entity("p", row, {"By": seed}))
            await people.apply(
                [Insert(Entity("p", f"new{seed}", {}))]
                + [_random_change(dice, row) for row in mixed]
            )
            await people.apply([Delete("p", f"new{seed}")])

    await asyncio.gather(*(change(seed) for seed in range(8)))

    found = await people.query(KeyRange.only("p"))
    assert [entity.row for entity in found.entities] == rows


def _random_change(dice: random.Random, row: str) -> Operation:
    entity = Entity("p", row, {"N": dice.random()})
    kinds: list[Operation] = [Merge(entity), Replace(entity), Upsert(entity)]
    return dice.choice(kinds)


class LostAnswer:
    """Lets a statement take effect and then breaks the connection before its answer is seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._original = psycopg.AsyncConnection.execute
        self._next: bytes | None = None
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        this = self

        async def execute(connection: Any, query: Any, *args: Any, **options: Any) -> Any:
            cursor = await this._original(connection, query, *args, **options)
            if this._next is not None and this._next in query:
                this._next = None
                if this.meanwhile is not None:
                    await this.meanwhile()
                await connection.close()
                raise psycopg.OperationalError("the connection is lost")
            return cursor

        monkeypatch.setattr(psycopg.AsyncConnection, "execute", execute)

    def of(self, statement: bytes) -> None:
        """The next statement that contains this."""
        self._next = statement

    @property
    def happened(self) -> bool:
        return self._next is None


@pytest.fixture
def lost_answer(monkeypatch: pytest.MonkeyPatch) -> LostAnswer:
    return LostAnswer(monkeypatch)


async def test_a_batch_whose_reply_was_lost_is_done_once(
    store: Store, lost_answer: LostAnswer
) -> None:
    people = store.table("people")
    batches: list[tuple[bytes, list[Operation]]] = [
        (b"INSERT", [Insert(Entity("p", row, {"N": 1})) for row in "abc"]),
        (b"UPDATE", [Replace(Entity("p", row, {"N": 2})) for row in "abc"]),
        (b"UPDATE", [Merge(Entity("p", row, {"M": 3})) for row in "abc"]),
        (b"ON CONFLICT", [Upsert(Entity("p", row, {"N": 4})) for row in "abc"]),
        (b"DELETE", [Delete("p", "a"), Insert(Entity("p", "d", {}))]),
        (b"DELETE", [Delete("p", row) for row in "bcd"]),
        (b"INSERT", [Insert(Entity("p", "single", {}))]),
        (b"DELETE", [Delete("p", "single")]),
    ]
    await people.insert(Entity("p", "other", {}))
    for statement, operations in batches:
        lost_answer.of(statement)
        etags = await people.apply(operations)
        assert lost_answer.happened
        for operation, etag in zip(operations, etags, strict=True):
            if isinstance(operation, Insert | Upsert | Replace | Merge):
                found = await people.get("p", operation.entity.row)
                assert found is not None
                assert found.etag == etag

    found_rows = [entity.row for entity in (await people.query()).entities]
    assert found_rows == ["other"]


async def test_a_conditional_write_whose_reply_was_lost_does_not_conflict_with_itself(
    store: Store, lost_answer: LostAnswer
) -> None:
    people = store.table("people")
    first = await people.insert(Entity("p", "r", {"N": 1}))
    lost_answer.of(b"UPDATE")
    second = await people.replace(Entity("p", "r", {"N": 2}), first)
    lost_answer.of(b"UPDATE")
    third = await people.merge(Entity("p", "r", {"M": 3}), second)
    with pytest.raises(StaleETag):
        await people.delete("p", "r", second)
    lost_answer.of(b"DELETE")
    await people.delete("p", "r", third)
    with pytest.raises(NotFound):
        await people.delete("p", "r", third)


async def test_a_put_whose_reply_was_lost_is_done_once_even_if_the_message_is_done_by_then(
    store: Store, lost_answer: LostAnswer
) -> None:
    queue = store.queue("q")

    async def take_and_delete() -> None:
        for message in await queue.receive(32, lease=60):
            await queue.delete(message)

    lost_answer.of(b"postroom.put")
    [kept] = await queue.put_many(["stays"])
    assert [message.id for message in await queue.peek(32)] == [kept]

    lost_answer.meanwhile = take_and_delete
    lost_answer.of(b"postroom.put")
    await queue.put_many(["taken", "at once"])

    assert lost_answer.happened
    assert (await queue.info()).length == 0


async def test_a_receive_whose_reply_was_lost_returns_what_it_took(
    store: Store, lost_answer: LostAnswer
) -> None:
    queue = store.queue("q")
    ids = await queue.put_many([str(n) for n in range(5)])
    lost_answer.of(b"SKIP LOCKED")

    received = await queue.receive(3, lease=60)

    assert [message.id for message in received] == ids[:3]
    assert {message.dequeue_count for message in received} == {1}
    assert [message.id for message in await queue.receive(5, lease=60)] == ids[3:]


async def test_settling_a_message_whose_reply_was_lost_is_not_a_lost_lease(
    store: Store, lost_answer: LostAnswer
) -> None:
    queue = store.queue("q")
    await queue.put_many(["a", "b"])
    first, second = await queue.receive(2, lease=60)
    settled: list[tuple[bytes, Callable[[QueueMessage], Awaitable[object]]]] = [
        (b"UPDATE", lambda message: queue.renew(message, lease=60)),
        (b"DELETE", queue.delete),
    ]
    for statement, settle in settled:
        lost_answer.of(statement)
        await settle(first)
        assert lost_answer.happened
    lost_answer.of(b"UPDATE")
    await queue.release(second)

    assert [message.body for message in await queue.peek(5)] == ["b"]


async def test_writes_in_order_whose_answer_was_lost_are_done_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, people = store.queue("q"), store.table("people")
    await queue.put("work")
    [message] = await queue.receive(lease=60)
    old = await people.insert(Entity("p", "old", {}))
    write, lost = batches._together, []

    async def lose_the_answer(connection: Any, statements: Any) -> bool:
        lost.append(await write(connection, statements))
        await connection.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(batches, "_together", lose_the_answer)
    await store.write_in_order(
        [
            Batch("people", [BulkInsert("p", {"a": {}, "b": {}})]),
            Batch("people", [Replace(Entity("p", "a", {"N": 1})), Delete("p", "old", old)]),
            Batch("people", [Delete("p", "b")]),
            Put("other", [MessageToPut("next")]),
            Finish([message]),
        ]
    )

    assert lost == [True], "all of it in one go, and never again"
    found = {each.row: dict(each.properties) for each in (await people.query()).entities}
    assert found == {"a": {"N": 1}}
    assert [each.body for each in await store.queue("other").peek(5)] == ["next"]
    assert (await queue.info()).length == 0


async def test_a_move_whose_reply_was_lost_is_done_once(
    store: Store, lost_answer: LostAnswer
) -> None:
    queue, other = store.queue("q"), store.queue("other")
    await queue.put("a")
    lost_answer.of(b"RETURNING id, body")
    message = await queue.receive_by_id((await queue.peek())[0].id, lease=60)
    assert message is not None
    assert (message.body, message.dequeue_count) == ("a", 1)
    assert lost_answer.happened

    lost_answer.of(b"UPDATE")
    assert await queue.move(message, "other") == message.id
    assert lost_answer.happened
    assert [found.body for found in await other.peek(5)] == ["a"]

    async def take_and_delete() -> None:
        [taken] = await queue.receive(lease=60)
        await queue.delete(taken)

    [message] = await other.receive(lease=60)
    lost_answer.meanwhile = take_and_delete
    lost_answer.of(b"UPDATE")
    await other.move(message, "q")  # even if it is done there by then
    assert (await queue.info()).length == (await other.info()).length == 0


async def test_a_named_lease_whose_reply_was_lost_is_held_once(
    store: Store, lost_answer: LostAnswer
) -> None:
    lost_answer.of(b"INSERT")
    lease = await store.acquire_lease("scheduler", seconds=30)
    assert isinstance(lease, Lease)
    assert lease.fencing == 1
    for statement, settle in ((b"UPDATE", store.renew_lease), (b"UPDATE", store.release_lease)):
        lost_answer.of(statement)
        await settle(lease)
    following = await store.acquire_lease("scheduler", seconds=30)
    assert following is not None
    assert following.fencing == 2


class Work:
    """Inserts, puts and receives that continue until `stopping`."""

    def __init__(self, stores: list[Store]) -> None:
        self.stores = stores
        self.stopping = False
        self.inserted: list[str] = []
        self.put: list[str] = []
        self.taken: Counter[str] = Counter()
        self.failures: list[StoreError] = []

    async def repeat(self, step: Callable[[int], Awaitable[None]], worker: int) -> None:
        number = 0
        while not self.stopping:
            try:
                await step(worker * 1_000_000 + number)
            except StoreError as exc:
                self.failures.append(exc)
            number += 1

    async def insert(self, number: int) -> None:
        store = self.stores[number % len(self.stores)]
        rows = [f"{number}-{part}" for part in range(5)]
        await store.table("people").apply([Insert(Entity("p", row, {})) for row in rows])
        self.inserted += rows

    async def put_one(self, number: int) -> None:
        store = self.stores[number % len(self.stores)]
        await store.queue("q").put(str(number))
        self.put.append(str(number))

    async def insert_and_put(self, number: int) -> None:
        store = self.stores[number % len(self.stores)]
        inserts = Batch("people", [BulkInsert("p", {f"{number}-first": {}, f"{number}-last": {}})])
        await store.write_in_order([inserts, Put("q", [MessageToPut(str(number))])])
        self.inserted += [f"{number}-first", f"{number}-last"]
        self.put.append(str(number))

    async def until_more_is_put(self) -> None:
        """Wait until 50 more messages were put, whatever the speed of the machine."""
        wanted = len(self.put) + 50
        async with asyncio.timeout(60):
            while len(self.put) < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def take(self, number: int) -> None:
        store = self.stores[number % len(self.stores)]
        queue = store.queue("q")
        for message in await queue.receive(8, lease=120):
            done = Batch("done", [Insert(Entity("p", message.body, {}))])
            await store.write_in_order([done, Finish([message])])
            self.taken[message.body] += 1
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("immediate", [False, True], ids=["orderly", "crash"])
async def test_a_restart_in_the_middle_of_work_loses_and_duplicates_nothing(
    postgres: PostgresServer, url: str, immediate: bool
) -> None:
    stores = [await open_store(url) for _ in range(2)]
    work = Work(stores)
    steps = [work.insert, work.put_one, work.insert_and_put, work.take] * 3
    running = [asyncio.create_task(work.repeat(step, n)) for n, step in enumerate(steps)]
    for _ in range(3):
        await work.until_more_is_put()
        await asyncio.to_thread(postgres.restart, immediate=immediate)
    await work.until_more_is_put()
    work.stopping = True
    await asyncio.gather(*running)

    queue = stores[0].queue("q")
    while left := await queue.receive(32, lease=60):
        for message in left:
            await queue.delete(message)
            work.taken[message.body] += 1
    found = [entity.row async for entity in stores[0].table("people").scan()]
    leased = await queue.info()
    for store in stores:
        await store.close()

    assert work.failures == []
    assert sorted(found) == sorted(work.inserted)
    assert leased.length == 0
    assert sorted(work.taken) == sorted(work.put)
    assert set(work.taken.values()) == {1}


async def test_a_waiter_survives_a_restart(postgres: PostgresServer, store: Store) -> None:
    await store.queue("q").put("first")
    await store.queue("q").purge()
    waiting = asyncio.create_task(store.queue("q").wait(30))
    await asyncio.sleep(0.3)

    await asyncio.to_thread(postgres.restart)
    await store.queue("q").put("hello")

    assert await waiting


async def test_a_server_that_stays_unavailable_is_reported_eventually(
    postgres: PostgresServer,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 2.0)
    await store.table("people").insert(Entity("p", "r", {"A": 1}))
    await asyncio.to_thread(postgres.stop)
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.table("people").get("p", "r")
        assert time.monotonic() - began < 25
    finally:
        await asyncio.to_thread(postgres.start)

    found = await store.table("people").get("p", "r")
    assert found is not None
    with pytest.raises(AlreadyExists):
        await store.table("people").insert(Entity("p", "r", {}))
    assert not [each for each in caplog.records if each.name.startswith("psycopg")]
    away, again = [each.message for each in caplog.records if each.name.startswith("postroom")]
    assert "cannot be reached" in away
    assert "is available again, after" in again
