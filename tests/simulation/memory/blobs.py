"""The blobs of the engine in memory."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

from postroom.storage import (
    AlreadyExists,
    BlobInfo,
    BlobListing,
    NotFound,
    StaleETag,
)
from postroom.storage.checked import CheckedContainer
from postroom.storage.codec import decode_token, encode_token
from tests.simulation.memory.data import (
    Blob,
    Connection,
    moment,
)


class MemoryContainer(CheckedContainer):
    def __init__(self, name: str, store: Connection) -> None:
        super().__init__(name)
        self._store = store

    async def _put(
        self, name: str, pieces: AsyncIterable[bytes], etag: str | None, new: bool
    ) -> str:
        content = b"".join([piece async for piece in pieces])

        def act() -> str:
            self._check_etag(name, etag, new=new)
            data = self._store.data
            written = f"b{data.number()}"
            blobs = data.containers.setdefault(self.name, {})
            blobs[name] = Blob(content, written, data.clock())
            return written

        return await self._store.run(act)

    async def _stream(self, name: str) -> AsyncIterator[bytes]:
        blob = await self._store.run(lambda: self._existing(name))
        for start in range(0, len(blob.data), 64 * 1024):
            current = await self._store.run(lambda: self._blobs().get(name))
            if current is None or current.etag != blob.etag:
                raise StaleETag(f"blob {name!r}")
            yield blob.data[start : start + 64 * 1024]

    async def _info(self, name: str) -> BlobInfo | None:
        def act() -> BlobInfo | None:
            blob = self._blobs().get(name)
            return None if blob is None else _blob_info(name, blob)

        return await self._store.run(act)

    async def _list(self, prefix: str, limit: int, after: str | None) -> BlobListing:
        behind = "" if after is None else decode_token(after, 1)[0]

        def act() -> BlobListing:
            blobs = self._blobs()
            names = sorted(n for n in blobs if n.startswith(prefix) and n > behind)
            shown = [_blob_info(name, blobs[name]) for name in names[:limit]]
            return BlobListing(shown, encode_token(shown[-1].name) if len(names) > limit else None)

        return await self._store.run(act)

    async def _delete(self, name: str, etag: str | None) -> None:
        def act() -> None:
            self._existing(name)
            self._check_etag(name, etag)
            del self._blobs()[name]

        await self._store.run(act)

    async def drop(self) -> None:
        await self._store.run(lambda: self._store.data.containers.pop(self.name, None))

    def _blobs(self) -> dict[str, Blob]:
        return self._store.data.containers.get(self.name, {})

    def _existing(self, name: str) -> Blob:
        blob = self._blobs().get(name)
        if blob is None:
            raise NotFound(f"blob {self.name}/{name}")
        return blob

    def _check_etag(self, name: str, etag: str | None, *, new: bool = False) -> None:
        if new and name in self._blobs():
            raise AlreadyExists(f"blob {self.name}/{name}")
        if etag is not None and self._existing(name).etag != etag:
            raise StaleETag(f"blob {self.name}/{name}")


def _blob_info(name: str, blob: Blob) -> BlobInfo:
    return BlobInfo(name, len(blob.data), blob.etag, moment(blob.modified_at))
