"""Blobs: pieces under a version, written in short steps before the blob's row points to it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress

from psycopg.errors import ForeignKeyViolation

from postroom.storage.checked import CheckedContainer, in_pieces
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.contract.blobs import BlobInfo, BlobListing
from postroom.storage.contract.tables import KeyRange
from postroom.storage.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    StaleETag,
    StoreError,
    StoreUnavailable,
)
from postroom.storage.postgres.connection import Connection, Database, rows_of

# A piece of an unfinished blob. The upload's row shows that it is still in progress.
_UPLOAD = b"""
WITH upload AS (
    INSERT INTO postroom.upload (version, touched_at) VALUES (%(version)s::bigint, now())
    ON CONFLICT (version) DO UPDATE SET touched_at = excluded.touched_at
)
INSERT INTO postroom.piece (version, number, data)
VALUES (%(version)s::bigint, %(number)s::int, %(data)b::bytea)
ON CONFLICT (version, number) DO NOTHING
"""
# Removes an upload that failed. One that was finished no longer has a row.
_GIVE_UP = b"""
WITH gone AS (DELETE FROM postroom.upload WHERE version = %(version)s::bigint RETURNING version)
DELETE FROM postroom.piece WHERE version = ANY (ARRAY(SELECT version FROM gone))
"""
_END_UPLOAD = b"DELETE FROM postroom.upload WHERE version = %(version)s::bigint RETURNING true"

# Writers of the same blob wait for each other.
_LOCK = b"SELECT pg_advisory_xact_lock(1886352245, hashtext(%(container)s || '/' || %(name)s))"
_CURRENT = b"""
SELECT size, etag, modified_at FROM postroom.blob
WHERE container = %(container)s AND name = %(name)s
"""
# Writes the last piece, and points the blob to the new version.
_POINT = b"""
WITH container AS (
    INSERT INTO postroom.container (name) VALUES (%(container)s) ON CONFLICT DO NOTHING
), old AS (
    DELETE FROM postroom.piece WHERE version = %(old)s::bigint
), last AS (
    INSERT INTO postroom.piece (version, number, data)
    VALUES (%(version)s::bigint, %(number)s::int, %(data)b::bytea)
)
INSERT INTO postroom.blob (container, name, etag, size, modified_at)
VALUES (%(container)s, %(name)s, %(version)s::bigint, %(size)s::bigint, now())
ON CONFLICT (container, name)
DO UPDATE SET etag = excluded.etag, size = excluded.size, modified_at = excluded.modified_at
"""
_REMOVE = b"""
WITH old AS (DELETE FROM postroom.piece WHERE version = %(old)s::bigint)
DELETE FROM postroom.blob WHERE container = %(container)s AND name = %(name)s
"""

_PIECE = b"""
SELECT data FROM postroom.piece WHERE version = %(version)s::bigint AND number = %(number)s::int
"""
_LIST = """
SELECT name, size, etag, modified_at FROM postroom.blob
WHERE container = %(container)s AND name >= %(start)s AND name > %(after)s {stop}
ORDER BY container, name LIMIT %(limit)s
"""
_LIST_ALL = _LIST.format(stop="").encode()
_LIST_PREFIX = _LIST.format(stop="AND name < %(stop)s").encode()

_LOCK_CONTAINER = b"SELECT FROM postroom.container WHERE name = %(container)s FOR UPDATE"
_DROP_BLOBS = b"""
WITH gone AS (DELETE FROM postroom.blob WHERE container = %(container)s RETURNING etag)
DELETE FROM postroom.piece WHERE version = ANY (ARRAY(SELECT etag FROM gone))
"""
_DROP = b"DELETE FROM postroom.container WHERE name = %(container)s"


class PostgresContainer(CheckedContainer):
    def __init__(self, name: str, database: Database) -> None:
        super().__init__(name)
        self._database = database

    async def _put(
        self, name: str, pieces: AsyncIterable[bytes], etag: str | None, new: bool
    ) -> str:
        version = secrets.randbits(63)
        number = size = 0
        last = b""  # written with the blob's row: a small blob takes one transaction
        try:
            async for piece in in_pieces(pieces):
                if size:
                    await self._upload(version, number, last)
                    number += 1
                last = piece
                size += len(piece)
            values = {"version": str(version), "number": number, "data": last, "size": str(size)}
            await self._finish(name, version, values, etag, new)
        except BaseException:
            if number:
                with suppress(StoreError):  # the next start removes it in a day
                    await self._database.execute(_GIVE_UP, {"version": str(version)})
            raise
        return str(version)

    async def _upload(self, version: int, number: int, data: bytes) -> None:
        values = {"version": str(version), "number": number, "data": data}
        await self._database.execute(_UPLOAD, values)

    async def _finish(
        self, name: str, version: int, values: dict[str, object], etag: str | None, new: bool
    ) -> None:
        """Make the blob visible, if the current one is as the caller expects."""
        values |= self._named(name)

        async def attempt(connection: Connection, again: bool) -> Conflict | None:
            async with connection.transaction():
                await connection.execute(_LOCK, values)
                current = await self._current(connection, name)
                if again and current is not None and current.etag == str(version):
                    return None
                conflict = self._conflict(name, current, etag, new)
                if conflict is None:
                    if values["number"] and not await rows_of(connection, _END_UPLOAD, values):
                        raise StoreUnavailable(
                            f"the upload of {self._described(name)} took too long"
                        )
                    old = None if current is None else current.etag
                    await connection.execute(_POINT, {**values, "old": old})
                return conflict

        async def work(connection: Connection, again: bool) -> None:
            while True:
                try:
                    conflict = await attempt(connection, again)
                    break
                except ForeignKeyViolation:  # the container was dropped at this moment
                    continue
            if conflict is not None:
                raise conflict

        await self._database.run(work)

    async def _stream(self, name: str) -> AsyncIterator[bytes]:
        blob = await self._info(name)
        if blob is None:
            raise NotFound(self._described(name))
        read = number = 0
        while read < blob.size:
            data = await self._piece(blob.etag, number)
            if data is None:
                raise StaleETag(self._described(name))
            yield data
            read += len(data)
            number += 1

    async def _piece(self, version: str, number: int) -> bytes | None:
        async def work(connection: Connection, again: bool) -> bytes | None:
            cursor = await connection.execute(
                _PIECE, {"version": version, "number": number}, prepare=True, binary=True
            )
            row = await cursor.fetchone()
            return None if row is None else row[0]

        return await self._database.run(work)

    async def _info(self, name: str) -> BlobInfo | None:
        async def work(connection: Connection, again: bool) -> BlobInfo | None:
            return await self._current(connection, name)

        return await self._database.run(work)

    async def _list(self, prefix: str, limit: int, after: str | None) -> BlobListing:
        names = KeyRange.prefix(prefix)
        values = {
            "container": self.name,
            "start": prefix,
            "stop": names.stop,
            "after": "" if after is None else decode_token(after, 1)[0],
            "limit": limit + 1,
        }
        sql = _LIST_ALL if names.stop is None else _LIST_PREFIX
        found = [
            BlobInfo(name, size, str(etag), modified_at)
            for name, size, etag, modified_at in await self._database.fetch(sql, values)
        ]
        if len(found) <= limit:
            return BlobListing(found, None)
        found.pop()
        return BlobListing(found, encode_token(found[-1].name))

    async def _delete(self, name: str, etag: str | None) -> None:
        values = self._named(name)

        async def attempt(connection: Connection, again: bool) -> Conflict | None:
            async with connection.transaction():
                await connection.execute(_LOCK, values)
                current = await self._current(connection, name)
                if current is None:
                    return None if again else NotFound(self._described(name))
                conflict = self._conflict(name, current, etag, new=False)
                if conflict is None:
                    await connection.execute(_REMOVE, {**values, "old": current.etag})
                return conflict

        async def work(connection: Connection, again: bool) -> None:
            conflict = await attempt(connection, again)
            if conflict is not None:
                raise conflict

        await self._database.run(work)

    async def drop(self) -> None:
        values = {"container": self.name}

        async def work(connection: Connection, again: bool) -> None:
            async with connection.transaction():
                for sql in (_LOCK_CONTAINER, _DROP_BLOBS, _DROP):
                    await connection.execute(sql, values)

        await self._database.run(work)

    async def _current(self, connection: Connection, name: str) -> BlobInfo | None:
        for size, etag, modified_at in await rows_of(connection, _CURRENT, self._named(name)):
            return BlobInfo(name, size, str(etag), modified_at)
        return None

    def _conflict(
        self, name: str, current: BlobInfo | None, etag: str | None, new: bool
    ) -> Conflict | None:
        """Return why the blob cannot be written. It is not raised inside the transaction: a
        rollback would also cost the connection its prepared statements."""
        if current is None:
            return None if etag is None else NotFound(self._described(name))
        if new:
            return AlreadyExists(self._described(name))
        if etag is not None and etag != current.etag:
            return StaleETag(self._described(name))
        return None

    def _named(self, name: str) -> dict[str, object]:
        return {"container": self.name, "name": name}
