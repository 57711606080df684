"""The store in one SQLite file."""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import apsw

from postroom.folders import create_private, make_private, tighten
from postroom.storage.checked import CheckedStore, measured
from postroom.storage.contract.blobs import Container
from postroom.storage.contract.queues import Queue, QueueInfo
from postroom.storage.contract.store import Batch, Finish, Lease, Put, Step, StoreInfo
from postroom.storage.contract.tables import Table
from postroom.storage.errors import (
    AccessDenied,
    Conflict,
    InvalidStoreUrl,
    LeaseLost,
    StoreFull,
    StoreMissing,
)
from postroom.storage.sqlite import queues, schema
from postroom.storage.sqlite.bell import FileBell
from postroom.storage.sqlite.blobs import SqliteContainer
from postroom.storage.sqlite.connection import Readers, open_connection
from postroom.storage.sqlite.errors import translated
from postroom.storage.sqlite.queues import SqliteQueue
from postroom.storage.sqlite.store_clock import StoreClock
from postroom.storage.sqlite.tables import PREFIX, SqliteTable
from postroom.storage.sqlite.writer import Writer

_SCHEME = "sqlite:///"
_COMPANION_FILES = ("-wal", "-shm", "-journal", "-bell", "-clock")

# Named leases: a row each, changed only if the lease is free or still the caller's.
_ACQUIRE_LEASE = """
INSERT INTO lease (name, fencing, token, expires_at) VALUES (:name, 1, :token, :until)
ON CONFLICT DO UPDATE SET fencing = fencing + 1, token = :token, expires_at = :until
WHERE expires_at <= :now
RETURNING fencing
"""
_RENEW_LEASE = "UPDATE lease SET expires_at = ? WHERE name = ? AND token = ?"
# The row stays: the next fencing number must be larger.
_RELEASE_LEASE = "UPDATE lease SET expires_at = 0, token = '' WHERE name = ? AND token = ?"

Work: TypeAlias = Callable[[apsw.Connection], object]
"""A part of a transaction."""


async def connect(url: str) -> SqliteStore:
    """Open the file of a URL such as `sqlite:///folder/file.db`; create it if it does not exist."""
    path = _path_of(url)
    clock = await asyncio.to_thread(_prepare, path)
    return SqliteStore(path, clock)


def check_exists(url: str) -> None:
    """Raise `InvalidStoreUrl` if `connect` would create a new file."""
    path = _path_of(url)
    if not path.exists():
        raise InvalidStoreUrl(f"there is no store {url}: no file {path.absolute()}")


class SqliteStore(CheckedStore):
    def __init__(self, path: Path, clock: StoreClock) -> None:
        self._path = path
        self._clock = clock
        self._bell = FileBell(path)
        self._readers = Readers(path)
        self._writer = Writer(path)
        self._known_tables: set[str] = set()

    def table(self, name: str) -> Table:
        return self._table(name)

    def queue(self, name: str) -> Queue:
        return self._queue(name)

    def _table(self, name: str) -> SqliteTable:
        return SqliteTable(name, self._writer, self._readers, self._known_tables)

    def _queue(self, name: str) -> SqliteQueue:
        return SqliteQueue(name, self._writer, self._readers, self._bell, self._clock)

    def container(self, name: str) -> Container:
        return SqliteContainer(name, self._writer, self._readers)

    @measured("write_in_order")
    async def write_in_order(self, steps: Sequence[Step]) -> None:
        """Do all steps in one transaction, unless one of them fails."""
        works = [self._work(step) for step in steps]

        def write(connection: apsw.Connection) -> None:
            for work in works:
                work(connection)

        try:
            await self._writer.run(write)
        except (Conflict, LeaseLost):
            # Nothing was written, but the steps before the failure must be.
            await super().write_in_order(steps)
        else:
            self._known_tables.update(each.table for each in steps if isinstance(each, Batch))
            if any(isinstance(each, Put) for each in steps):
                self._bell.ring()

    def _work(self, step: Step) -> Work:
        match step:
            case Batch(table, operations):
                return self._table(table).work(operations)
            case Finish(messages):
                return self._queue(messages[0].queue).finishing(messages)
            case Put(queue, messages):
                return self._queue(queue).putting(messages)

    async def tables(self) -> list[str]:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ? ORDER BY name"
        rows = await self._readers.run(lambda c: list(c.execute(sql, (f"{PREFIX}*",))))
        return [name.removeprefix(PREFIX) for (name,) in rows]

    async def queues(self) -> list[QueueInfo]:
        return await self._readers.run(lambda c: queues.read_infos(c, self._clock))

    async def containers(self) -> list[str]:
        sql = "SELECT name FROM container ORDER BY name"
        return [name for (name,) in await self._readers.run(lambda c: list(c.execute(sql)))]

    async def _wait_for_messages(
        self, names: frozenset[str] | None, excluding: frozenset[str], timeout: float
    ) -> frozenset[str]:
        return await queues.wait_for_messages(
            self._readers, self._bell, self._clock, names, excluding, timeout
        )

    async def _acquire_lease(self, name: str, seconds: float) -> Lease | None:
        token = secrets.token_hex(16)

        def write(connection: apsw.Connection) -> int | None:
            now = self._clock.now()
            until = now + round(seconds * 1e6)
            values = {"name": name, "token": token, "until": until, "now": now}
            fencing: int | None = connection.execute(_ACQUIRE_LEASE, values).get
            return fencing

        fencing = await self._writer.run(write)
        return None if fencing is None else Lease(name, fencing, seconds, token)

    async def renew_lease(self, lease: Lease) -> None:
        await self._change_lease(lease, _RENEW_LEASE, self._clock.after(lease.seconds))

    async def release_lease(self, lease: Lease) -> None:
        await self._change_lease(lease, _RELEASE_LEASE)

    async def _change_lease(self, lease: Lease, sql: str, *values: int) -> None:
        def write(connection: apsw.Connection) -> None:
            connection.execute(sql, (*values, lease.name, lease.token))
            if connection.changes() == 0:
                raise LeaseLost(f"the lease {lease.name!r} now has another holder")

        await self._writer.run(write)

    async def info(self) -> StoreInfo:
        version = await self._readers.run(lambda c: int(c.pragma("user_version")))
        return StoreInfo(f"SQLite {apsw.sqlite_lib_version()}", str(self._path), version)

    async def close(self) -> None:
        """Finish all writes, then all reads, then stop listening."""
        await self._writer.close()
        await self._readers.close()
        await self._bell.close()
        self._clock.close()


def _path_of(url: str) -> Path:
    """Return the path: `sqlite:///a/b.db` is relative, `sqlite:////a/b.db` absolute."""
    if not url.startswith(_SCHEME) or url == _SCHEME:
        raise InvalidStoreUrl("an SQLite store must be written as sqlite:///path/to/file.db")
    return Path(url.removeprefix(_SCHEME))


def _opened_clock(path: Path, at_least: int) -> StoreClock:
    try:
        return StoreClock(path, at_least)
    except OSError as exc:
        if exc.errno == errno.ENOSPC:
            raise StoreFull(f"no space left for {path}") from exc
        raise AccessDenied(f"{path}-clock cannot be written: {exc.strerror}") from exc


def _prepare(path: Path) -> StoreClock:
    """Create or upgrade the file; return the store's clock."""
    try:
        make_private(path.parent)
    except OSError as exc:
        raise AccessDenied(f"the folder {path.parent} cannot be created: {exc.strerror}") from exc
    if path.is_dir():
        raise InvalidStoreUrl(f"an SQLite store must be a file, but {path} is a folder")
    _refuse_if_deleted(path)
    _make_private(path)
    connection = open_connection(path)
    try:
        schema.prepare(connection, path)
        with translated(path, connection):
            schema.remove_abandoned_uploads(connection)
            latest = schema.latest_moment(connection)
        return _opened_clock(path, latest)
    finally:
        connection.close()


def _refuse_if_deleted(path: Path) -> None:
    """Raise `StoreMissing` if the file was deleted: a new, empty one would look like lost data."""
    companions = [path.with_name(path.name + suffix) for suffix in ("-clock", "-bell")]
    left = [each.name for each in companions if each.exists()]
    if left and not path.exists():
        raise StoreMissing(
            f"{path} was deleted: restore it from a backup. To start with an empty store instead,"
            f" delete {' and '.join(left)} next to it"
        )


def _make_private(path: Path) -> None:
    """Create a private file: SQLite gives files such as `-wal` the same rights."""
    try:
        create_private(path)
    except OSError:
        return  # opening it fails, too, with a better error
    for suffix in _COMPANION_FILES:
        tighten(path.with_name(path.name + suffix))
