"""Blobs: pieces under a version number, and a row with the current version of each name.

The version number is the ETag. It is never used twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable

import apsw

from postroom.storage.checked import CheckedContainer, in_pieces
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.contract.blobs import BlobInfo, BlobListing
from postroom.storage.contract.tables import KeyRange
from postroom.storage.errors import AlreadyExists, NotFound, StaleETag
from postroom.storage.sqlite import conditions
from postroom.storage.sqlite import store_clock as clock
from postroom.storage.sqlite.connection import Readers
from postroom.storage.sqlite.writer import Writer

_BEGIN = "INSERT INTO upload (started_at) VALUES (?)"
_ADD_PIECE = "INSERT INTO blob_piece (version, number, data) VALUES (?, ?, ?)"
_END = "DELETE FROM upload WHERE version = ?"
_FIND = "SELECT version, size, modified_at FROM blob WHERE container = ? AND name = ?"
_SHOW = (
    "INSERT INTO blob (container, name, version, size, modified_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET version = excluded.version, size = excluded.size,"
    " modified_at = excluded.modified_at"
)
_HIDE = "DELETE FROM blob WHERE container = ? AND name = ?"
_DELETE_PIECES = "DELETE FROM blob_piece WHERE version = ?"
_PIECE = "SELECT data FROM blob_piece WHERE version = ? AND number = ?"
_LIST = "SELECT name, version, size, modified_at FROM blob WHERE container = ? AND {names}"


class SqliteContainer(CheckedContainer):
    def __init__(self, name: str, writer: Writer, readers: Readers) -> None:
        super().__init__(name)
        self._writer = writer
        self._readers = readers

    async def _put(
        self, name: str, pieces: AsyncIterable[bytes], etag: str | None, new: bool
    ) -> str:
        version = await self._writer.run(_begin_upload)
        size = number = 0
        try:
            async for piece in in_pieces(pieces):
                await self._writer.run(_adding(version, number, piece))
                size += len(piece)
                number += 1
        except BaseException:
            await self._writer.run(lambda c: _forget(c, version))
            raise

        def show(connection: apsw.Connection) -> None:
            connection.execute(_END, (version,))
            old = self._fitting(connection, name, etag, new)
            connection.execute(
                "INSERT INTO container VALUES (?) ON CONFLICT DO NOTHING", (self.name,)
            )
            connection.execute(_SHOW, (self.name, name, version, size, clock.system_time()))
            if old is not None:
                connection.execute(_DELETE_PIECES, (old,))

        try:
            await self._writer.run(show)
        except (AlreadyExists, NotFound, StaleETag):
            await self._writer.run(lambda c: _forget(c, version))
            raise
        return str(version)

    async def _stream(self, name: str) -> AsyncIterator[bytes]:
        info = await self._info(name)
        if info is None:
            raise NotFound(self._described(name))
        left, number = info.size, 0
        while left > 0:
            key = (int(info.etag), number)
            piece: bytes | None = await self._readers.run(
                lambda c, key=key: c.execute(_PIECE, key).get  # type: ignore[misc]
            )
            if piece is None:
                raise StaleETag(self._described(name))
            yield piece
            left -= len(piece)
            number += 1

    async def _info(self, name: str) -> BlobInfo | None:
        found = await self._readers.run(lambda c: c.execute(_FIND, (self.name, name)).get)
        if found is None:
            return None
        version, size, modified_at = found
        return BlobInfo(name, size, str(version), clock.as_datetime(modified_at))

    async def _list(self, prefix: str, limit: int, after: str | None) -> BlobListing:
        names, values = conditions.of_range("name", KeyRange.prefix(prefix))
        sql = _LIST.format(names=names)
        if after is not None:
            sql += " AND name > ?"
            values.extend(decode_token(after, 1))
        sql += " ORDER BY name LIMIT ?"
        rows = await self._readers.run(
            lambda c: list(c.execute(sql, (self.name, *values, limit + 1)))
        )
        blobs = [
            BlobInfo(name, size, str(version), clock.as_datetime(modified_at))
            for name, version, size, modified_at in rows[:limit]
        ]
        return BlobListing(blobs, encode_token(blobs[-1].name) if len(rows) > limit else None)

    async def _delete(self, name: str, etag: str | None) -> None:
        def write(connection: apsw.Connection) -> None:
            version = self._fitting(connection, name, etag, new=False)
            if version is None:
                raise NotFound(self._described(name))
            connection.execute(_HIDE, (self.name, name))
            connection.execute(_DELETE_PIECES, (version,))

        await self._writer.run(write)

    async def drop(self) -> None:
        def write(connection: apsw.Connection) -> None:
            connection.execute(
                "DELETE FROM blob_piece"
                " WHERE version IN (SELECT version FROM blob WHERE container = ?)",
                (self.name,),
            )
            connection.execute("DELETE FROM blob WHERE container = ?", (self.name,))
            connection.execute("DELETE FROM container WHERE name = ?", (self.name,))

        await self._writer.run(write)

    def _fitting(
        self, connection: apsw.Connection, name: str, etag: str | None, new: bool
    ) -> int | None:
        """Return the current version, if it is what the caller expects."""
        found = connection.execute(_FIND, (self.name, name)).get
        if found is None:
            if etag is not None:
                raise NotFound(self._described(name))
            return None
        version: int = found[0]
        if new:
            raise AlreadyExists(self._described(name))
        if etag is not None and etag != str(version):
            raise StaleETag(self._described(name))
        return version


def _begin_upload(connection: apsw.Connection) -> int:
    connection.execute(_BEGIN, (clock.system_time(),))
    return connection.last_insert_rowid()


def _adding(version: int, number: int, piece: bytes) -> Callable[[apsw.Connection], None]:
    def write(connection: apsw.Connection) -> None:
        connection.execute(_ADD_PIECE, (version, number, piece))

    return write


def _forget(connection: apsw.Connection, version: int) -> None:
    connection.execute(_DELETE_PIECES, (version,))
    connection.execute(_END, (version,))
