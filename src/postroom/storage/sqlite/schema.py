"""The schema of the file, and upgrades.

`application_id` marks the file as ours, `user_version` is the schema version. Tables of entities
are created by their first write (`tables.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import apsw

from postroom.storage.errors import SchemaTooNew, StoreDamaged
from postroom.storage.sqlite.errors import translated

APPLICATION_ID = 0x506F7374  # "Post"

_VERSION_1 = """
CREATE TABLE queue (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

-- Times are microseconds since 1970. A message is ready once visible_at has come: a delay and a
-- lease both put that into the future. AUTOINCREMENT: an id is never used twice.
CREATE TABLE queue_message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    visible_at INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    expires_at INTEGER,
    dequeue_count INTEGER NOT NULL DEFAULT 0,
    receipt INTEGER,
    body TEXT NOT NULL,
    properties TEXT NOT NULL
) STRICT;
CREATE INDEX queue_message_ready ON queue_message (queue, visible_at, id);
CREATE INDEX queue_message_expiry ON queue_message (queue, expires_at)
    WHERE expires_at IS NOT NULL;

-- A blob is the version that its row names. Pieces are written first, the row last; pieces whose
-- upload is still listed belong to nobody yet.
CREATE TABLE container (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE upload (version INTEGER PRIMARY KEY AUTOINCREMENT, started_at INTEGER NOT NULL) STRICT;
CREATE TABLE blob (
    container TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    size INTEGER NOT NULL,
    modified_at INTEGER NOT NULL,
    PRIMARY KEY (container, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE blob_piece (
    version INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (version, number)
) STRICT;

CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    fencing INTEGER NOT NULL,
    token TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

# The step at index n upgrades a file from version n to version n + 1.
STEPS: tuple[Callable[[apsw.Connection], object], ...] = (
    lambda connection: connection.execute(_VERSION_1),
    lambda connection: _keep_bytes_apart(connection),
)
VERSION = len(STEPS)

_DAY = 24 * 3600 * 1_000_000


def prepare(connection: apsw.Connection, path: Path) -> None:
    """Create or upgrade the schema. If several processes try at the same time, one does it."""
    with translated(path, connection):
        if _version(connection, path) < VERSION:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for number in range(_version(connection, path), VERSION):
                    STEPS[number](connection)
                connection.pragma("application_id", APPLICATION_ID)
                connection.pragma("user_version", VERSION)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise


def _keep_bytes_apart(connection: apsw.Connection) -> None:
    """Give every table of entities a column for bytes, separate from the other properties."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name GLOB 't_*'").fetchall()
    for (name,) in tables:
        connection.execute(f'ALTER TABLE "{name}" ADD COLUMN packed BLOB')


def remove_abandoned_uploads(connection: apsw.Connection) -> None:
    """Remove pieces of uploads that a crash interrupted at least a day ago."""
    before = time.time_ns() // 1000 - _DAY
    connection.execute(
        "DELETE FROM blob_piece WHERE version IN (SELECT version FROM upload WHERE started_at < ?)",
        (before,),
    )
    connection.execute("DELETE FROM upload WHERE started_at < ?", (before,))


def latest_moment(connection: apsw.Connection) -> int:
    """Return a moment that the store's clock has certainly reached (see `clock.py`)."""
    latest: int = connection.execute("SELECT coalesce(max(enqueued_at), 0) FROM queue_message").get
    return latest


def _version(connection: apsw.Connection, path: Path) -> int:
    application = connection.pragma("application_id")
    version = int(connection.pragma("user_version"))
    is_empty = connection.execute("SELECT count(*) FROM sqlite_master").get == 0
    if application != APPLICATION_ID and not is_empty:
        raise StoreDamaged(f"{path} is an SQLite file, but not a store of Postroom")
    if version > VERSION:
        raise SchemaTooNew(
            f"{path} has schema version {version}, written by a newer Postroom;"
            f" this version supports up to {VERSION}: upgrade Postroom"
        )
    return version
