"""Containers: block blobs in Azure Blob Storage."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from datetime import UTC
from typing import Any, Final

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock, BlobProperties
from azure.storage.blob.aio import BlobClient

from postroom.storage.azure.connection import BLOCK_BYTES, Connection
from postroom.storage.azure.errors import Refused
from postroom.storage.checked import CheckedContainer, in_pieces
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.contract.blobs import BlobInfo, BlobListing
from postroom.storage.errors import (
    AlreadyExists,
    NotFound,
    StaleETag,
    StoreUnavailable,
)

SYSTEM_CONTAINER: Final = "postroom-system"
"""Holds the schema version and the leases. It is not listed."""

_ETAG = re.compile(r'"[!#-~]+"')
# Well-formed, but of no blob: an invalid ETag counts as stale, while Azure calls it malformed.
_NO_ETAG: Final = '"0x0"'


class AzureContainer(CheckedContainer):
    def __init__(self, name: str, connection: Connection) -> None:
        super().__init__(name)
        self._connection = connection
        self._client = connection.blobs.get_container_client(name)

    async def _put(
        self, name: str, pieces: AsyncIterable[bytes], etag: str | None, new: bool
    ) -> str:
        """Write in one request if it fits into a block. Otherwise write blocks, which are invisible
        until their list is committed, and which Azure discards after a week without a commit."""
        blob = self._client.get_blob_client(name)
        condition = _condition(etag, new)
        try:
            async with aclosing(_blocks(pieces)) as blocks:
                first = await anext(blocks, b"")
                second = await anext(blocks, None)
                if second is None:
                    return await self._upload(blob, first, condition)
                staged = [await self._stage(blob, block) for block in (first, second)]
                del first, second  # one block at a time is enough
                staged += [await self._stage(blob, block) async for block in blocks]
            return await self._commit(blob, staged, condition)
        except Refused as refused:
            raise await self._conflict(name, refused, etag, new) from refused

    async def _upload(self, blob: BlobClient, data: bytes, condition: dict[str, Any]) -> str:
        answer = await self._connection.run(
            lambda: blob.upload_blob(data, overwrite=True, **condition),
            repeatable=not condition,
            make=None if "etag" in condition else self._make,
        )
        return str(answer["etag"])

    async def _stage(self, blob: BlobClient, data: bytes) -> BlobBlock:
        block = BlobBlock(uuid.uuid4().hex)
        await self._connection.run(
            lambda: blob.stage_block(block.id, data), repeatable=True, make=self._make
        )
        return block

    async def _commit(
        self, blob: BlobClient, blocks: list[BlobBlock], condition: dict[str, Any]
    ) -> str:
        answer = await self._connection.run(
            lambda: blob.commit_block_list(blocks, **condition), repeatable=not condition
        )
        return str(answer["etag"])

    async def _conflict(
        self, name: str, refused: Refused, etag: str | None, new: bool
    ) -> Exception:
        if new and refused.status in (409, 412):
            return AlreadyExists(self._described(name))
        if etag is not None and (refused.nothing_there or refused.status == 412):
            # Azure responds with 412 to a condition on a missing blob, too.
            return await self._stale_or_missing(name)
        if refused.code == "InvalidBlockList":
            return StoreUnavailable(
                f"{self._described(name)} was written by another caller at the same time:"
                " Azure has discarded this version"
            )
        return refused

    async def _stale_or_missing(self, name: str) -> Exception:
        if await self._info(name) is None:
            return NotFound(self._described(name))
        return StaleETag(self._described(name))

    async def _stream(self, name: str) -> AsyncIterator[bytes]:
        blob = self._client.get_blob_client(name)
        offset, etag = 0, None
        while True:
            try:
                data, etag, size = await self._connection.run(
                    lambda start=offset, version=etag: _read_range(blob, start, version),  # type: ignore[misc]
                    repeatable=True,
                )
            except Refused as refused:
                if refused.status == 416 and offset == 0:
                    return  # an empty blob has no first byte
                if offset > 0 and (refused.status == 412 or refused.nothing_there):
                    raise StaleETag(self._described(name)) from refused
                if refused.nothing_there:
                    raise NotFound(self._described(name)) from refused
                raise
            yield data
            offset += len(data)
            if offset >= size:
                return

    async def _info(self, name: str) -> BlobInfo | None:
        blob = self._client.get_blob_client(name)
        try:
            found = await self._connection.run(blob.get_blob_properties, repeatable=True)
        except Refused as refused:
            if refused.nothing_there:
                return None
            raise
        return _blob_info(name, found)

    async def _list(self, prefix: str, limit: int, after: str | None) -> BlobListing:
        marker = None if after is None else decode_token(after, 1)[0]
        found: list[BlobInfo] = []
        while len(found) < limit:
            page, marker = await self._page(prefix, limit - len(found), marker)
            found += page
            if marker is None:
                return BlobListing(found, None)
        # The service may announce more although there is none: look ahead.
        ahead, _ = await self._page(prefix, 1, marker)
        return BlobListing(found, encode_token(marker) if ahead and marker else None)

    async def _page(
        self, prefix: str, size: int, marker: str | None
    ) -> tuple[list[BlobInfo], str | None]:
        async def read() -> tuple[list[BlobInfo], str | None]:
            pages: Any = self._client.list_blobs(
                name_starts_with=prefix or None, results_per_page=size
            ).by_page(continuation_token=marker)
            async for page in pages:
                found = [_blob_info(str(blob.name), blob) async for blob in page]
                return found, pages.continuation_token or None
            return [], None

        try:
            return await self._connection.run(read, repeatable=True)
        except Refused as refused:
            if refused.nothing_there:
                return [], None
            raise

    async def _delete(self, name: str, etag: str | None) -> None:
        blob = self._client.get_blob_client(name)
        try:
            await self._connection.run(lambda: blob.delete_blob(**_condition(etag, new=False)))
        except Refused as refused:
            if refused.nothing_there:
                raise NotFound(self._described(name)) from refused
            if refused.status == 412:
                raise await self._stale_or_missing(name) from refused
            raise

    async def drop(self) -> None:
        await self._connection.drop(self._client.delete_container)

    async def _make(self) -> None:
        await self._connection.create(self._client.create_container)


async def list_names(connection: Connection) -> list[str]:
    """Return the names of all containers except ours and the account's (`$logs`, `$web`)."""

    async def read() -> list[str]:
        listed: Any = connection.blobs.list_containers()
        return [str(found.name) async for found in listed]

    names = await connection.run(read, repeatable=True)
    return sorted(n for n in names if n != SYSTEM_CONTAINER and not n.startswith("$"))


async def _blocks(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    async for block in in_pieces(pieces, BLOCK_BYTES):
        yield block


async def _read_range(blob: BlobClient, start: int, etag: str | None) -> tuple[bytes, str, int]:
    """Return a block from `start` on of the version `etag`, that version, and its size."""
    condition = _condition(etag, new=False)
    download: Any = await blob.download_blob(offset=start, length=BLOCK_BYTES, **condition)
    data: bytes = await download.readall()
    of_all = str(download.properties.content_range or "").rpartition("/")[2]
    return data, str(download.properties.etag), int(of_all or len(data))


def _condition(etag: str | None, new: bool) -> dict[str, Any]:
    if new:
        return {"match_condition": MatchConditions.IfMissing}
    if etag is None:
        return {}
    known = etag if _ETAG.fullmatch(etag) else _NO_ETAG
    return {"etag": known, "match_condition": MatchConditions.IfNotModified}


def _blob_info(name: str, found: BlobProperties) -> BlobInfo:
    etag = str(found.etag)
    quoted = etag if etag.startswith('"') else f'"{etag}"'  # a listing gives it without
    return BlobInfo(name, int(found.size), quoted, found.last_modified.astimezone(UTC))
