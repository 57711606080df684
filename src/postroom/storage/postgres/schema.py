"""The schema in the database, its version, and upgrades."""

from __future__ import annotations

from hashlib import sha256

from psycopg import errors

from postroom.storage.errors import EngineTooOld, SchemaTooNew, StoreDamaged
from postroom.storage.postgres.connection import Connection, rows_of

OLDEST_SERVER = 140000
"""Older versions are no longer maintained, and lack some of our settings."""

# One number for all of Postroom's advisory locks on the schema: 'post' in ASCII.
_LOCK = b"SELECT pg_advisory_xact_lock(1886352244)"

_STATE = b"""
SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
       to_regclass('postroom.meta') IS NOT NULL
"""
_VERSION = b"SELECT version FROM postroom.meta"
_SET_VERSION = b"UPDATE postroom.meta SET version = %(version)s"

# Not a numbered step: it records which of them have been done.
_META = b"""
CREATE SCHEMA IF NOT EXISTS postroom;
CREATE TABLE IF NOT EXISTS postroom.meta (version integer NOT NULL);
INSERT INTO postroom.meta SELECT 0 WHERE NOT EXISTS (SELECT FROM postroom.meta)
"""

_VERSION_1 = b"""
-- Logical tables; each is a separate relation, created by its first write.
CREATE TABLE postroom.entity_table (
    name text COLLATE "C" PRIMARY KEY,
    relation text NOT NULL UNIQUE
);

-- A batch is one statement. Calling this in it with too few rows takes all of it back.
CREATE FUNCTION postroom.all_or_nothing(done bigint, wanted bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF done <> wanted THEN
        RAISE EXCEPTION 'a batch does not fit the rows that are there; nothing was written'
        USING ERRCODE = 'PR001';
    END IF;
END $$;

-- Queues. A claim moves a message from the head of the index to the time its lease ends, and the
-- dead entries stay until a vacuum; so the vacuum comes often, does not dawdle, and never locks the
-- table in order to shorten the file. Free room lets a claimed message stay on its page.
CREATE TABLE postroom.queue (name text COLLATE "C" PRIMARY KEY);
CREATE TABLE postroom.message (
    id uuid PRIMARY KEY,  -- made by the client, in the order of arrival
    queue text COLLATE "C" NOT NULL,
    visible_at timestamptz NOT NULL,  -- when it was put, or its delay or lease ends
    enqueued_at timestamptz NOT NULL,
    expires_at timestamptz,
    receipt bigint,  -- of the last receive
    dequeue_count integer NOT NULL DEFAULT 0,
    body text NOT NULL,
    properties jsonb
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
-- The puts of the last minutes, by their first id. One that finds itself here was done before, when
-- its answer was lost, even if its messages have been received and deleted since.
CREATE TABLE postroom.put (id uuid PRIMARY KEY) WITH (
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
CREATE INDEX message_order ON postroom.message (queue, visible_at, id);
CREATE INDEX message_expiry ON postroom.message (expires_at) WHERE expires_at IS NOT NULL;

-- Blobs. The bytes of a version are written piece by piece before the blob points to it; until
-- then an upload names it. Pieces are not compressed: most are text that is read once.
CREATE TABLE postroom.container (name text COLLATE "C" PRIMARY KEY);
CREATE TABLE postroom.blob (
    container text COLLATE "C" NOT NULL REFERENCES postroom.container,
    name text COLLATE "C" NOT NULL,
    etag bigint NOT NULL,  -- and the version of its pieces
    size bigint NOT NULL,
    modified_at timestamptz NOT NULL,
    PRIMARY KEY (container, name)
);
CREATE TABLE postroom.piece (
    version bigint NOT NULL,
    number integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (version, number)
);
ALTER TABLE postroom.piece ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE postroom.upload (version bigint PRIMARY KEY, touched_at timestamptz NOT NULL);

-- Leases. A row stays when its lease ends, so that the next fencing number is larger.
CREATE TABLE postroom.lease (
    name text COLLATE "C" PRIMARY KEY,
    fencing bigint NOT NULL,
    token text,
    expires_at timestamptz NOT NULL
);
"""

# Bytes are separate from the other properties, which can be read and changed without them. They are
# compressed already, so PostgreSQL does not try.
_VERSION_2 = b"""
DO $$
DECLARE relation text;
BEGIN
    FOR relation IN SELECT entity_table.relation FROM postroom.entity_table LOOP
        EXECUTE format('ALTER TABLE postroom.%I ADD COLUMN packed bytea,'
            ' ALTER COLUMN packed SET STORAGE EXTERNAL', relation);
    END LOOP;
END $$;
"""

# Step n upgrades from version n - 1 to version n. A released step never changes.
STEPS = (_VERSION_1, _VERSION_2)
VERSION = len(STEPS)

# Rows are found by key only, so dead ones cost space but no time. Free space on each page keeps a
# changed row there, without a new entry in the index.
_CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS postroom.{relation} (
    partition text COLLATE "C" NOT NULL,
    row text COLLATE "C" NOT NULL,
    etag bigint NOT NULL,
    properties jsonb NOT NULL,
    packed bytea,
    PRIMARY KEY (partition, row)
) WITH (fillfactor = 90, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.05)
"""
_STORE_PACKED = "ALTER TABLE postroom.{relation} ALTER COLUMN packed SET STORAGE EXTERNAL"
_REGISTER_TABLE = b"""
INSERT INTO postroom.entity_table (name, relation) VALUES (%(name)s, %(relation)s)
ON CONFLICT DO NOTHING
"""

# Uploads whose process died. A running one updates its row.
_REMOVE_ABANDONED = b"""
WITH abandoned AS (
    DELETE FROM postroom.upload WHERE touched_at < now() - interval '1 day' RETURNING version
)
DELETE FROM postroom.piece WHERE version = ANY (ARRAY(SELECT version FROM abandoned))
"""


async def prepare(connection: Connection, location: str) -> None:
    """Create or upgrade the schema. Processes that start at the same time do it in turn."""
    [(server, encoding, is_there)] = await rows_of(connection, _STATE)
    if server < OLDEST_SERVER:
        raise EngineTooOld(
            f"PostgreSQL {server // 10000} at {location} is too old:"
            f" install {OLDEST_SERVER // 10000} or newer"
        )
    if encoding != "UTF8":
        raise StoreDamaged(
            f"the database {location} must have the encoding UTF8, not {encoding}: create one with"
            " ENCODING 'UTF8'"
        )
    # A user without the right to create anything can still use a current schema.
    if not is_there or await _version(connection, location) < VERSION:
        await _upgrade(connection, location)


async def remove_abandoned_uploads(connection: Connection) -> None:
    try:
        await connection.execute(_REMOVE_ABANDONED)
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction):
        return  # left to a process that may write


def relation_of(table: str) -> str:
    """Return the relation of a logical table: `t_` and its name, shortened to 63 bytes.

    Names contain no `_`, so a shortened one cannot collide with another.
    """
    if len(table) <= 61:
        return f"t_{table}"
    return f"t_{table[:40]}_{sha256(table.encode()).hexdigest()[:16]}"


async def create_table(connection: Connection, name: str) -> None:
    """Create a logical table, if it does not exist."""
    relation = relation_of(name)
    async with connection.transaction():
        await connection.execute(_LOCK)
        await connection.execute(_CREATE_TABLE.format(relation=relation).encode())
        await connection.execute(_STORE_PACKED.format(relation=relation).encode())
        await connection.execute(_REGISTER_TABLE, {"name": name, "relation": relation})


async def _upgrade(connection: Connection, location: str) -> None:
    async with connection.transaction():
        await connection.execute(_LOCK)
        await connection.execute(_META)
        for number in range(await _version(connection, location), VERSION):
            await connection.execute(STEPS[number])
        await connection.execute(_SET_VERSION, {"version": VERSION})


async def _version(connection: Connection, location: str) -> int:
    rows = await rows_of(connection, _VERSION)
    if len(rows) != 1:
        raise StoreDamaged(f"{location}: postroom.meta has {len(rows)} rows instead of one")
    version = int(rows[0][0])
    if version > VERSION:
        raise SchemaTooNew(
            f"{location} has schema version {version}, written by a newer Postroom;"
            f" this version supports up to {VERSION}: upgrade Postroom on this machine"
        )
    return version
