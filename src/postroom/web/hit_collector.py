"""Collects hits on tracked links and pixels, and queues them once per second.

A request never waits for the store. Network address and browser stay in memory, and only as long as
it takes to make a digest of them, whose key changes every hour and is stored nowhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from typing import Final

import msgspec

from postroom.domain.messages.hits import HIT_QUEUE, Hit, HitBatch, cause_of
from postroom.mail.tracking.tracking_tokens import TrackedLink
from postroom.storage import Store, StoreOutage
from postroom.web.background import Background

log = logging.getLogger(__name__)

_COLLECT_SECONDS: Final = 1.0
_MOST_IN_BATCH: Final = 380  # of up to 120 bytes: a queue message holds 48,000
_MOST_WAITING: Final = 100_000  # hits, while the store is unavailable
_KEY_SECONDS: Final = 3600.0


class HitCollector:
    def __init__(self, store: Store, background: Background) -> None:
        self._queue = store.queue(HIT_QUEUE)
        self._background = background
        self._hits: list[Hit] = []
        self._batches: list[HitBatch] = []
        self._flushing: asyncio.Task[None] | None = None
        self._key = b""
        self._key_until = 0.0
        self._dropped = 0

    def note(self, link: TrackedLink, number: int, place: str, agent: str) -> None:
        """Note a hit by a visitor at a network address with this browser."""
        if len(self._hits) + _MOST_IN_BATCH * len(self._batches) >= _MOST_WAITING:
            self._dropped += 1
            return
        visitor = self._digest(place, agent)
        at = round(time.time(), 3)
        self._hits.append(Hit(link.ref, number, at, visitor, cause_of(agent), link.guid))
        if self._flushing is None or self._flushing.done():
            self._flushing = self._background.start(self._flush_soon(), "queueing of hits")

    async def flush(self) -> None:
        """Queue all hits. A batch that may have been queued already keeps its ID, so that it counts
        once."""
        hits, self._hits = self._hits, []
        for start in range(0, len(hits), _MOST_IN_BATCH):
            some = tuple(hits[start : start + _MOST_IN_BATCH])
            self._batches.append(HitBatch(secrets.token_hex(8), some))
        while self._batches:
            await self._queue.put(msgspec.json.encode(self._batches[0]).decode())
            del self._batches[0]
        if self._dropped:
            log.error("%d hits were not counted: the store was unavailable", self._dropped)
            self._dropped = 0

    async def close(self) -> None:
        """Queue what is left."""
        try:
            await self.flush()
        except StoreOutage as exc:
            log.warning("the last hits are not counted: %s", exc)

    async def _flush_soon(self) -> None:
        while True:
            await asyncio.sleep(_COLLECT_SECONDS)
            try:
                await self.flush()
            except StoreOutage as exc:
                log.warning("hits wait for the store: %s", exc)
            if not self._hits and not self._batches:
                return

    def _digest(self, place: str, agent: str) -> str:
        now = time.monotonic()
        if now >= self._key_until:
            self._key, self._key_until = secrets.token_bytes(32), now + _KEY_SECONDS
        text = f"{place}\n{agent}".encode("utf-8", "replace")
        return hashlib.blake2b(text, key=self._key, digest_size=8).hexdigest()
