"""Reading a file of subscribers while the part before is written.

Lines are read in chunks and sorted by address, and their GUIDs are in order, too. So rows that are
written together are stored together, which is several times faster than random order.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

import msgspec

from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.lists.lists import SubscriberGuid, new_guids
from postroom.services.audience.files.line_chunks import Chunk
from postroom.services.audience.files.subscriber_lines import SubscriberFile
from postroom.services.audience.signup.unsubscribes import UnsubscribedFrom

CHUNK_LINES = 20_000
BATCH = 49  # subscribers: two rows each, and their entry in the ledger, fit into one atomic batch

T = TypeVar("T")


class AddressBatch(msgspec.Struct):
    """Neighbouring addresses; with them, `end` addresses of the chunk are done."""

    addresses: list[AddressKey]
    guids: list[SubscriberGuid]
    end: int


class PreparedChunk(msgspec.Struct):
    """A chunk of the file, ready to be written."""

    chunk: Chunk
    batches: list[AddressBatch]


def batches_of(wanted: dict[AddressKey, bool | None]) -> list[AddressBatch]:
    addresses = sorted(wanted)
    guids = new_guids(len(addresses))
    return [
        AddressBatch(addresses[start : start + BATCH], guids[start : start + BATCH], start + BATCH)
        for start in range(0, len(addresses), BATCH)
    ]


async def read_ahead(
    source: SubscriberFile, left: UnsubscribedFrom | None, stop: threading.Event
) -> AsyncGenerator[PreparedChunk]:
    """Yield the file's chunks; while one is used, the next is prepared in a thread.

    Addresses that may have unsubscribed are watched.
    """
    watch = left.may_hold if left else None
    read = source.chunks(CHUNK_LINES, watch)
    chunks = (PreparedChunk(chunk, batches_of(chunk.wanted)) for chunk in read)

    def following() -> asyncio.Task[PreparedChunk | None]:
        return asyncio.create_task(in_thread(stop, lambda: next(chunks, None)))

    coming = following()
    try:
        while (chunk := await coming) is not None:
            coming = following()
            yield chunk
    finally:
        stop.set()
        await asyncio.wait([coming])


async def in_thread(stop: threading.Event, work: Callable[[], T]) -> T:
    """Run `work` in a thread. When cancelled, stop the thread and wait for it: it uses a file that
    the caller will close."""
    running = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        raise
