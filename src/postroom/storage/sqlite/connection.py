"""How a connection to the file is set up, and how it waits for others."""

from __future__ import annotations

import random
import time
from pathlib import Path

import apsw

from postroom.storage.errors import AccessDenied, EngineTooOld
from postroom.storage.sqlite.errors import translated

# WAL files that several processes reset at once could corrupt the database up to 3.51.2.
SAFE_VERSION = 3_051_003
BUSY_SECONDS = 30.0
_STATEMENTS = 256  # each table has about a dozen; the cache must hold them all
_CACHE_KIB = 2_048  # each: the system's own cache has the rest, once for all connections
_WAL_PAGES = 8_192  # checkpoint after 32 MiB: fewer, larger transfers into the database file


def open_connection(path: Path) -> apsw.Connection:
    """A connection for one thread, durable (`synchronous=FULL`) and in WAL mode."""
    if apsw.SQLITE_VERSION_NUMBER < SAFE_VERSION:
        raise EngineTooOld(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a file that several processes use;"
            " install apsw 3.54 or newer"
        )
    with translated(path):
        connection = apsw.Connection(str(path), statementcachesize=_STATEMENTS)
        connection.set_busy_handler(_BusyHandler())
        if connection.readonly("main"):
            connection.close()
            raise AccessDenied(f"{path} cannot be written: check the rights of file and folder")
    with translated(path, connection):
        _switch_to_wal(connection)
        connection.pragma("synchronous", "full")
        connection.pragma("wal_autocheckpoint", _WAL_PAGES)
        connection.pragma("cache_size", -_CACHE_KIB)
    return connection


def _switch_to_wal(connection: apsw.Connection) -> None:
    """SQLite does not ask the busy handler when two processes do this at once on a new file."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.pragma("journal_mode", "wal")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.01))


class _BusyHandler:
    """Tries again soon: SQLite's own handler sleeps up to 100 ms, while a commit takes one or two.

    The random part keeps waiting processes from asking in step.
    """

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, attempt: int) -> bool:
        now = time.monotonic()
        if attempt == 0:
            self._since = now
        if now - self._since > BUSY_SECONDS:
            return False
        time.sleep(random.uniform(0.0002, 0.001 + min(attempt, 10) * 0.0005))
        return True
