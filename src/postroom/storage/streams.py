"""Streams of bytes, cut to the size in which an engine keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

from postroom.storage.errors import InvalidValue

PIECE_BYTES = 256 * 1024


async def in_pieces(stream: AsyncIterable[bytes], size: int = PIECE_BYTES) -> AsyncIterator[bytes]:
    """Yield the same bytes in pieces of `size`; the last may be shorter. One is in memory at a
    time."""
    gathered = bytearray()
    async for data in stream:
        if not isinstance(data, bytes):
            raise InvalidValue(f"a blob must consist of bytes, not {type(data).__name__}")
        for start in range(0, len(data), size):
            gathered += data[start : start + size]
            while len(gathered) >= size:
                yield bytes(gathered[:size])
                del gathered[:size]
    if gathered:
        yield bytes(gathered)
