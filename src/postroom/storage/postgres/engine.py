"""The store in one PostgreSQL database."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

import psycopg
from psycopg.conninfo import conninfo_to_dict

from postroom.storage.checked import CheckedStore, measured
from postroom.storage.contract.blobs import Container
from postroom.storage.contract.queues import Queue, QueueInfo
from postroom.storage.contract.store import Batch, Finish, Lease, Put, Server, Step, StoreInfo
from postroom.storage.contract.tables import Table
from postroom.storage.errors import InvalidStoreUrl, LeaseLost
from postroom.storage.postgres import queue_sql, schema
from postroom.storage.postgres.batches import Writing, write_together
from postroom.storage.postgres.blobs import PostgresContainer
from postroom.storage.postgres.connection import (
    Connection,
    Database,
    changed_by,
    first_connection,
    rows_of,
)
from postroom.storage.postgres.queue_state import QueueState
from postroom.storage.postgres.queues import PostgresQueue
from postroom.storage.postgres.tables import PostgresTable

_TABLES = b"SELECT name FROM postroom.entity_table ORDER BY name"
_CONTAINERS = b"SELECT name FROM postroom.container ORDER BY name"
_INFO = b"SELECT current_setting('server_version'), version FROM postroom.meta"

# Named leases: a row each, changed only if the lease is free or still the caller's.
# The clock is read when the row is locked (`clock_timestamp`), not when the statement began
# (`now`): it may have waited for another candidate in between. A caller that finds its own token
# acquired the lease in an attempt whose reply was lost.
_ACQUIRE_LEASE = b"""
INSERT INTO postroom.lease AS lease (name, fencing, token, expires_at)
VALUES (%(name)s, 1, %(token)s, clock_timestamp() + %(seconds)s::float8 * interval '1 second')
ON CONFLICT (name) DO UPDATE
SET fencing = lease.fencing + CASE WHEN lease.token = excluded.token THEN 0 ELSE 1 END,
    token = excluded.token,
    expires_at = clock_timestamp() + %(seconds)s::float8 * interval '1 second'
WHERE lease.token IS NULL OR lease.token = excluded.token
   OR lease.expires_at <= clock_timestamp()
RETURNING fencing
"""
_RENEW_LEASE = b"""
UPDATE postroom.lease
SET expires_at = clock_timestamp() + %(seconds)s::float8 * interval '1 second'
WHERE name = %(name)s AND token = %(token)s
"""
_RELEASE_LEASE = b"""
UPDATE postroom.lease SET token = NULL WHERE name = %(name)s AND token = %(token)s
"""

_SCHEME = "postgresql://"
_FORM = "a PostgreSQL store must be written as postgresql://user:password@host:port/database"

# A URL may override these. A server that disappears is noticed within about 15 s: by keepalives
# while we wait for a reply, by the user timeout while it does not accept our data.
_DEFAULTS = {
    "application_name": "postroom",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}


async def connect(url: str) -> PostgresStore:
    """Open the database of a URL, creating or upgrading its schema."""
    database = Database(parameters_of(url))
    async with first_connection(database) as connection:
        await schema.prepare(connection, database.location)
        await schema.remove_abandoned_uploads(connection)
    await database.open()
    return PostgresStore(database)


def parameters_of(url: str) -> dict[str, str]:
    """Return libpq's parameters. `InvalidStoreUrl`, which never repeats a password.

    With an unescaped `@` or `/` in a password, libpq takes the rest of it for a host or a port, and
    names it in errors. So such a URL is refused here.
    """
    authority, rest = _split(url)
    if authority.count("@") > 1 or "@" in rest:
        raise InvalidStoreUrl(f"{_FORM}; @ / ? % inside a part must be written %40 %2F %3F %25")
    try:
        found = conninfo_to_dict(url)
    except psycopg.Error:  # whose text may be the whole URL
        raise InvalidStoreUrl(f"{_FORM}; this URL is malformed") from None
    parameters = {name: str(value) for name, value in found.items() if value is not None}
    ports = parameters.get("port", "").split(",")
    if not all(port == "" or port.isdecimal() for port in ports):
        raise InvalidStoreUrl(f"{_FORM}; the port must be a number")
    if not parameters.get("dbname") and "service" not in parameters:
        raise InvalidStoreUrl(f"{_FORM}; the database is missing")
    return {**_DEFAULTS, **parameters, "client_encoding": "utf8"}


def _split(url: str) -> tuple[str, str]:
    """Return user, password, hosts and ports; and what follows them."""
    if not url.startswith(_SCHEME):
        raise InvalidStoreUrl(_FORM)
    authority, *rest = re.split(r"(?=[/?])", url.removeprefix(_SCHEME), maxsplit=1)
    return authority, "".join(rest)


class PostgresStore(CheckedStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue_state = QueueState(database)

    def table(self, name: str) -> Table:
        return self._table(name)

    def queue(self, name: str) -> Queue:
        return self._queue(name)

    def _table(self, name: str) -> PostgresTable:
        return PostgresTable(name, self._database)

    def _queue(self, name: str) -> PostgresQueue:
        return PostgresQueue(name, self._queue_state)

    def container(self, name: str) -> Container:
        return PostgresContainer(name, self._database)

    @measured("write_in_order")
    async def write_in_order(self, steps: Sequence[Step]) -> None:
        """Do all steps in one transaction, unless one of them fails."""
        some = [step for step in steps if not isinstance(step, Put) or step.messages]
        await write_together(self._database, [self._writing(step) for step in some])
        for step in some:
            if isinstance(step, Put):
                self._queue_state.bell.ring(step.queue)

    def _writing(self, step: Step) -> Writing:
        match step:
            case Batch(table, operations):
                return self._table(table).applying(operations)
            case Finish(messages):
                return self._queue(messages[0].queue).finishing(messages)
            case Put(queue, messages):
                return self._queue(queue).putting(messages)

    async def tables(self) -> list[str]:
        return [name for (name,) in await self._database.fetch(_TABLES)]

    async def queues(self) -> list[QueueInfo]:
        return [QueueInfo(*row) for row in await self._database.fetch(queue_sql.INFO_ALL)]

    async def containers(self) -> list[str]:
        return [name for (name,) in await self._database.fetch(_CONTAINERS)]

    async def _wait_for_messages(
        self, names: frozenset[str] | None, excluding: frozenset[str], timeout: float
    ) -> frozenset[str]:
        return await self._queue_state.wait(names, excluding, timeout)

    async def _acquire_lease(self, name: str, seconds: float) -> Lease | None:
        token = secrets.token_hex(16)
        values = {"name": name, "token": token, "seconds": float(seconds)}
        rows = await self._database.fetch(_ACQUIRE_LEASE, values)
        return Lease(name, rows[0][0], seconds, token) if rows else None

    async def renew_lease(self, lease: Lease) -> None:
        await self._change_lease(_RENEW_LEASE, lease)

    async def release_lease(self, lease: Lease) -> None:
        await self._change_lease(_RELEASE_LEASE, lease, may_be_done=True)

    async def _change_lease(self, sql: bytes, lease: Lease, *, may_be_done: bool = False) -> None:
        values = {"name": lease.name, "token": lease.token, "seconds": float(lease.seconds)}

        async def work(connection: Connection, again: bool) -> None:
            changed = await changed_by(connection, sql, values)
            # After a lost reply, it may have been us who released it.
            if not changed and not (again and may_be_done):
                raise LeaseLost(f"the lease {lease.name!r} now has another holder")

        await self._database.run(work)

    @property
    def server(self) -> Server:
        return self._database.server

    async def info(self) -> StoreInfo:
        async def work(connection: Connection, again: bool) -> StoreInfo:
            [(server, version)] = await rows_of(connection, _INFO)
            info = connection.info
            location = f"{info.host}:{info.port}/{info.dbname}"
            return StoreInfo(f"PostgreSQL {server.split()[0]}", location, version)

        return await self._database.run(work)

    async def close(self) -> None:
        """Send the remaining notifications, wait for running calls, then close the connections.
        Waiters of this process find the store closed."""
        if not self._database.closed:
            await self._queue_state.bell.finish_ringing()
            await self._database.close()
            await self._queue_state.bell.close()
