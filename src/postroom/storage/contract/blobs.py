"""The contract of blobs: bytes of any size, in containers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator
from datetime import datetime

import msgspec


class BlobInfo(msgspec.Struct, frozen=True):
    """A blob without its content."""

    name: str
    size: int
    etag: str
    modified_at: datetime


class BlobListing(msgspec.Struct, frozen=True):
    """Blobs sorted by name. `next` is the token to continue after the last one; None at the end.

    Azure sorts characters beyond U+FFFF before those from U+E000 on."""

    blobs: list[BlobInfo]
    next: str | None


class Container(ABC):
    """Blobs by name: bytes of any size, written and read as streams."""

    name: str

    @abstractmethod
    async def put(
        self,
        name: str,
        data: bytes | AsyncIterable[bytes],
        *,
        etag: str | None = None,
        new: bool = False,
    ) -> str:
        """Write a blob, completely or not at all; return its ETag.

        Readers see the old content until the last byte is written. With `etag`: `NotFound`, or
        `StaleETag` if the blob has another one now. With `new`: `AlreadyExists`. If the stream
        raises an error, the blob does not change.
        """

    @abstractmethod
    async def read(self, name: str) -> bytes:
        """Return the content of a blob. `NotFound`."""

    @abstractmethod
    def stream(self, name: str) -> AsyncIterator[bytes]:
        """Yield a blob in pieces, with constant memory. `NotFound`.

        All pieces are of one version: `StaleETag` if the blob is replaced or deleted while it is
        read.
        """

    @abstractmethod
    async def info(self, name: str) -> BlobInfo | None:
        """Return size, ETag and time of the last write, or None."""

    @abstractmethod
    async def list(
        self, prefix: str = "", *, limit: int = 1000, after: str | None = None
    ) -> BlobListing:
        """Return up to `limit` (1 to 1,000) blobs whose names begin with `prefix`."""

    @abstractmethod
    async def delete(self, name: str, etag: str | None = None) -> None:
        """Delete a blob. `NotFound`; `StaleETag` as for `put`."""

    @abstractmethod
    async def drop(self) -> None:
        """Delete the container with all its blobs, if it exists."""
