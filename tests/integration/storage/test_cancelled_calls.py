"""A call to PostgreSQL that is cancelled ends its task, whatever the server answers."""

import asyncio
from functools import partial

import pytest

from postroom.storage.postgres import connection as connections
from postroom.storage.postgres.connection import Connection, Database
from postroom.storage.postgres.engine import parameters_of
from postroom.watchdog import end_tasks
from tests.services.stores.postgres import PostgresServer

# A statement that is interrupted and answers with a full disk instead.
FULL_WHEN_INTERRUPTED = b"""
DO $$ BEGIN PERFORM pg_sleep(30);
EXCEPTION WHEN query_canceled THEN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100';
END $$
"""


@pytest.mark.timeout(60)
async def test_a_cancellation_is_not_replaced_by_the_error_of_the_statement(
    postgres: PostgresServer,
) -> None:
    with postgres.empty_database() as url:
        database = Database(parameters_of(url))
        await database.open()
        began = asyncio.Event()

        async def work(connection: Connection, again: bool) -> None:
            began.set()
            await connection.execute(FULL_WHEN_INTERRUPTED)

        running = asyncio.create_task(database.run(work))
        await began.wait()
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.cancelled()
        await database.close()


async def held_until(free: asyncio.Event, _connection: Connection, _again: bool) -> None:
    await free.wait()


@pytest.mark.timeout(60)
async def test_a_cancellation_is_not_lost_at_the_moment_when_a_connection_is_free(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_POOL_SIZE", 1)
    with postgres.empty_database() as url:
        database = Database(parameters_of(url))
        await database.open()
        cancelled = 0
        for turns in range(40):  # of the event loop, between the two
            free = asyncio.Event()
            holding = asyncio.create_task(database.run(partial(held_until, free)))
            waiting = asyncio.create_task(database.fetch(b"SELECT 1"))
            await asyncio.sleep(0.01)
            free.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            if waiting.cancel():
                cancelled += 1
                await asyncio.wait([waiting])
                assert waiting.cancelled(), turns
            await asyncio.gather(holding, waiting, return_exceptions=True)
        assert cancelled >= 5
        await database.close()


@pytest.mark.timeout(30)
async def test_a_task_that_loses_its_cancellation_is_still_ended() -> None:
    lost = 0

    async def work() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost > 1:
                    raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end_tasks([task])
    assert task.cancelled()
