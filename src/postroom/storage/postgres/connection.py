"""Connections to the server: a pool, and retries when one breaks."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    ReadOnlySqlTransaction,
    UndefinedFunction,
)
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from postroom.storage.contract.store import Server
from postroom.storage.errors import StoreClosed, StoreError, StoreUnavailable
from postroom.storage.postgres.errors import (
    Outages,
    is_lost_connection,
    is_starting_server,
    is_worth_retrying,
    quieten_pool,
    translate,
)

R = TypeVar("R")
Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
Parameters: TypeAlias = Mapping[str, object]
Work: TypeAlias = Callable[[Connection, bool], Awaitable[R]]

CONNECT_SECONDS = 5.0
"""How long a server may take to come up when a store is opened."""

PATIENCE_SECONDS = 30.0
"""How long a call retries: a restart takes seconds, a failover less than half a minute."""

CLOSE_SECONDS = 10.0
"""How long `close` waits for running calls."""

_POOL_SIZE = 8  # of the server's 100, for a dozen processes; more than its cores gain nothing
_POOL_SECONDS = 1.0  # to wait for a connection before the server is tried again
_PREPARED = 1000  # statements that a connection keeps prepared: a handful per table

# Every frequent query scans one index range, or looks up each key. With old statistics, the planner
# would take a grown table for small and read all of it, and the rate would fall with its size until
# statistics catch up. So other plans are disabled, and plans are made once per connection, whatever
# the values. (Joins by key are written so that only one order is possible: see `batches`.)
#
# The rest: what has returned is durable; each statement sees what was committed before it; nobody
# waits for a lock forever; and a suspended process holds no locks.
_SETTINGS = b"""
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '30s';
SET timezone = 'UTC';
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""

# The timeline is that of the WAL being written: after a promotion, `pg_control_checkpoint()` shows
# the old one until the next checkpoint.
_SERVER = b"""
SELECT 'system ' || system_identifier
       || ', timeline ' || ltrim(left(pg_walfile_name(pg_current_wal_lsn()), 8), '0'),
       extract(epoch FROM pg_postmaster_start_time())::text
FROM pg_control_system() WHERE NOT pg_is_in_recovery()
"""


class Database:
    """One PostgreSQL database, as the rest of the engine uses it."""

    def __init__(self, parameters: dict[str, str]) -> None:
        self._parameters = parameters
        self.location = _location_in(parameters)
        # `run` retries to connect: the pool's own pauses grow too long.
        self._pool = AsyncConnectionPool(
            kwargs={**parameters, "autocommit": True},
            configure=self._configure,
            min_size=1,
            max_size=_POOL_SIZE,
            reconnect_timeout=0.0,
            name="postroom",
            open=False,
        )
        quieten_pool()
        self.server = Server()
        """The server of the newest connection, unless that leads to a standby."""
        self._to_standby: WeakSet[Connection] = WeakSet()
        self._outages = Outages(self.location)
        self._closed = False
        self._running = 0
        self._finished = asyncio.Event()

    async def open(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        """Refuse new calls, wait for running ones, then close the connections."""
        self._closed = True
        if self._running:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._finished.wait()
            except TimeoutError:
                pass  # their connections are closed when they are returned
        await self._pool.close()

    @property
    def closed(self) -> bool:
        return self._closed

    async def connect(self) -> Connection:
        """Return a configured connection outside the pool. `StoreError`."""
        try:
            connection = await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)  # type: ignore[arg-type]
        except psycopg.Error as exc:
            raise translate(exc, self.location) from exc
        try:
            await self._configure(connection)
        except BaseException as exc:  # even if the caller is cancelled
            await connection.close()
            if isinstance(exc, psycopg.Error):
                raise translate(exc, self.location) from exc
            raise
        return connection

    async def _configure(self, connection: Connection) -> None:
        await _configure(connection)
        with suppress(InsufficientPrivilege, UndefinedFunction, FeatureNotSupported):
            await self._identify(connection)

    async def _identify(self, connection: Connection) -> None:
        """Note which server a connection leads to: a standby once it has been promoted."""
        found = await (await connection.execute(_SERVER)).fetchall()
        if found:
            self.server = Server(*found[0])
            self._to_standby.discard(connection)
        else:
            self._to_standby.add(connection)

    async def fetch(self, sql: bytes, values: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Run a statement that may be repeated; return its rows."""

        async def work(connection: Connection, again: bool) -> list[tuple[Any, ...]]:
            return await rows_of(connection, sql, values)

        return await self.run(work)

    async def execute(self, sql: bytes, values: Parameters) -> int:
        """Run a statement that may be repeated; return how many rows it changed."""

        async def work(connection: Connection, again: bool) -> int:
            return await changed_by(connection, sql, values)

        return await self.run(work)

    async def run(self, work: Work[R]) -> R:
        """Do `work(connection, again)`; retry it if the connection breaks or a lock is lost.

        `again`: an earlier attempt may have taken effect although its reply was lost. Raises
        `StoreUnavailable` after `PATIENCE_SECONDS`, and no errors of the driver.
        """
        if self._closed:
            raise StoreClosed("the store is closed")
        self._running += 1
        try:
            return await self._repeat(work)
        finally:
            self._running -= 1
            if self.closed and not self._running:
                self._finished.set()

    async def _repeat(self, work: Work[R]) -> R:
        deadline = time.monotonic() + PATIENCE_SECONDS
        is_cancelled = _cancellation()
        again = False
        attempt = 0
        while True:
            try:
                connection = await self._pool.getconn(timeout=_POOL_SECONDS)
                try:
                    done = await work(connection, again)
                    if connection in self._to_standby:
                        # It stays open when the standby is promoted. Once a caller has written to
                        # it, `server` must show that earlier records may be missing.
                        await self._identify(connection)
                except ReadOnlySqlTransaction:
                    # The server has become a standby, or was set to read only, and this connection
                    # stays so. A new one finds the server that can be written to.
                    await connection.close()
                    raise
                finally:
                    await self._pool.putconn(connection)
                self._outages.answered()
                if is_cancelled():  # as the pool handed out a connection, which hides it
                    raise asyncio.CancelledError
                return done
            except PoolClosed as exc:
                raise StoreClosed("the store is closed") from exc
            except psycopg.Error as exc:
                if is_cancelled():
                    raise asyncio.CancelledError from exc
                if isinstance(exc, PoolTimeout):
                    self._outages.no_connection(_POOL_SECONDS)
                if not is_worth_retrying(exc):
                    raise translate(exc, self.location) from exc
                if time.monotonic() > deadline:
                    raise await self._reason(exc) from exc
                again = again or is_lost_connection(exc)
            # While the server is down, the pool causes the pause, because it has no connection.
            # This one is for locks, and short: after a restart, all connections are broken.
            if attempt:
                await asyncio.sleep(min(0.25, 0.01 * 2**attempt) * random.uniform(0.5, 1.0))
            attempt += 1

    async def _reason(self, exc: psycopg.Error) -> StoreError:
        """Return why there was no connection, which the pool does not report."""
        if not isinstance(exc, PoolTimeout):
            return translate(exc, self.location)
        try:
            connection = await self.connect()
        except StoreError as reason:
            return reason
        await connection.close()
        return StoreUnavailable(
            f"PostgreSQL at {self.location}: all {_POOL_SIZE} connections were busy"
            f" for {PATIENCE_SECONDS:.0f} seconds"
        )


def _location_in(parameters: dict[str, str]) -> str:
    """Return where the parameters lead, for people."""
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    port = parameters.get("port") or "5432"
    return f"{host}:{port}/{parameters.get('dbname', '')}"


def _cancellation() -> Callable[[], bool]:
    """Return a function that tells whether the current task was cancelled since now.

    When a task is cancelled, the driver interrupts the statement. If the server replies with
    another error, such as a full disk, the driver raises that instead of the cancellation. A task
    that handles such errors would never end, nor would one whose cancellation the pool has hidden.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    return lambda: task is not None and task.cancelling() > before


async def rows_of(
    connection: Connection, sql: bytes, values: Parameters | None = None
) -> list[tuple[Any, ...]]:
    """Run a statement, which the connection keeps prepared; return its rows."""
    cursor = await connection.execute(sql, values, prepare=True)
    return await cursor.fetchall()


async def changed_by(connection: Connection, sql: bytes, values: Parameters) -> int:
    """Run a statement; return how many rows it changed."""
    return (await connection.execute(sql, values, prepare=True)).rowcount


@asynccontextmanager
async def first_connection(database: Database) -> AsyncIterator[Connection]:
    """Connect once while a store is opened; fail soon, with an error that explains why."""
    connection = await _connect_soon(database)
    try:
        yield connection
    except psycopg.Error as exc:
        raise translate(exc, database.location) from exc
    finally:
        await connection.close()


async def _connect_soon(database: Database) -> Connection:
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return await database.connect()
        except StoreError as exc:
            cause = exc.__cause__
            starting = isinstance(cause, psycopg.Error) and is_starting_server(cause)
            if not starting or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.1)


async def _configure(connection: Connection) -> None:
    connection.prepared_max = _PREPARED
    # Properties stay JSON text, for `codec`; IDs stay text, as callers see them.
    for name in ("jsonb", "uuid"):
        connection.adapters.register_loader(name, TextLoader)
    await connection.execute(_SETTINGS)


SEPARATOR = "\x1f"


def joined(texts: Sequence[str]) -> str:
    """Return many texts as one parameter, for `string_to_array(…, chr(31))`.

    The driver would write an array element by element in Python, which takes longer than the whole
    statement on the server. Keys, names and JSON contain no control characters.
    """
    return SEPARATOR.join(texts)
