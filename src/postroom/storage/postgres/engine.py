"""The store in one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence

from postroom.storage.checked import CheckedStore
from postroom.storage.contract import (
    Batch,
    Container,
    Finish,
    Lease,
    Put,
    Queue,
    QueueInfo,
    Server,
    Step,
    StoreInfo,
    Table,
)
from postroom.storage.measuring import measured
from postroom.storage.postgres import leases, queues, schema
from postroom.storage.postgres.address import parameters_of
from postroom.storage.postgres.blobs import PostgresContainer
from postroom.storage.postgres.connection import Connection, Database, first_connection, rows_of
from postroom.storage.postgres.queues import PostgresQueue, Queues
from postroom.storage.postgres.tables import PostgresTable
from postroom.storage.postgres.together import Writing, write_together

_TABLES = b"SELECT name FROM postroom.entity_table ORDER BY name"
_CONTAINERS = b"SELECT name FROM postroom.container ORDER BY name"
_INFO = b"SELECT current_setting('server_version'), version FROM postroom.meta"


async def connect(url: str) -> PostgresStore:
    """Open the database that a URL names, with its schema made or upgraded."""
    database = Database(parameters_of(url))
    async with first_connection(database) as connection:
        await schema.prepare(connection, database.location)
        await schema.remove_abandoned_uploads(connection)
    await database.open()
    return PostgresStore(database)


class PostgresStore(CheckedStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues = Queues(database)

    def table(self, name: str) -> Table:
        return self._table(name)

    def queue(self, name: str) -> Queue:
        return self._queue(name)

    def _table(self, name: str) -> PostgresTable:
        return PostgresTable(name, self._database)

    def _queue(self, name: str) -> PostgresQueue:
        return PostgresQueue(name, self._queues)

    def container(self, name: str) -> Container:
        return PostgresContainer(name, self._database)

    @measured("write_in_order")
    async def write_in_order(self, steps: Sequence[Step], *, patience: float = 0.0) -> None:
        """All of them in one transaction, as long as none of them fails."""
        some = [step for step in steps if not isinstance(step, Put) or step.messages]
        await write_together(self._database, [self._writing(step) for step in some])
        for step in some:
            if isinstance(step, Put):
                self._queues.arrivals.ring(step.queue)

    def _writing(self, step: Step) -> Writing:
        match step:
            case Batch(table, operations):
                return self._table(table).applying(operations)
            case Finish(message):
                return self._queue(message.queue).finishing(message)
            case Put(queue, messages):
                return self._queue(queue).putting(messages)

    async def tables(self) -> list[str]:
        return [name for (name,) in await self._database.fetch(_TABLES)]

    async def queues(self) -> list[QueueInfo]:
        return [QueueInfo(*row) for row in await self._database.fetch(queues.INFO_ALL)]

    async def containers(self) -> list[str]:
        return [name for (name,) in await self._database.fetch(_CONTAINERS)]

    async def _wait_for_messages(
        self, names: frozenset[str] | None, besides: frozenset[str], timeout: float
    ) -> frozenset[str]:
        return await self._queues.wait(names, besides, timeout)

    async def _acquire_lease(self, name: str, seconds: float) -> Lease | None:
        return await leases.acquire(self._database, name, seconds)

    async def renew_lease(self, lease: Lease) -> None:
        await leases.renew(self._database, lease)

    async def release_lease(self, lease: Lease) -> None:
        await leases.release(self._database, lease)

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
        """First waiters in other processes are told of what was put, then calls end, then the
        connections; waiters of this process find the store closed."""
        if not self._database.closed:
            await self._queues.arrivals.finish_ringing()
            await self._database.close()
            await self._queues.arrivals.close()
