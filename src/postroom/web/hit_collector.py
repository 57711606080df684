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
from pathlib import Path
from typing import Final

import msgspec

from postroom.domain.messages.hits import HIT_QUEUE, Hit, cause_of
from postroom.mail.tracking.tracking_tokens import TrackedLink
from postroom.storage import Store, StoreOutage
from postroom.web.background import Background
from postroom.web.collected_hits import CollectedHits, left_by_dead_servers, new_collection

log = logging.getLogger(__name__)

_COLLECT_SECONDS: Final = 1.0
_MOST_WAITING: Final = 100_000  # hits, while the store is unavailable
_KEY_SECONDS: Final = 3600.0


class HitCollector:
    def __init__(self, store: Store, background: Background, folder: Path) -> None:
        self._queue = store.queue(HIT_QUEUE)
        self._background = background
        self._folder = folder
        self._collecting = new_collection(folder)
        self._waiting: list[CollectedHits] = []
        self._flushing: asyncio.Task[None] | None = None
        self._key = b""
        self._key_until = 0.0
        self._dropped = 0

    def recover(self) -> None:
        """Queue the hits that killed web servers on this machine have left."""
        self._waiting += left_by_dead_servers(self._folder)
        if found := sum(map(len, self._waiting)):
            log.info("%d hits of a killed web server are queued now", found)
            self._start_flushing()

    def note(self, link: TrackedLink, number: int, place: str, agent: str) -> None:
        """Note a hit by a visitor at a network address with this browser."""
        if len(self._collecting) + sum(map(len, self._waiting)) >= _MOST_WAITING:
            self._dropped += 1
            return
        visitor = self._digest(place, agent)
        at = round(time.time(), 3)
        self._collecting.add(Hit(link.ref, number, at, visitor, cause_of(agent), link.guid))
        self._start_flushing()

    async def flush(self) -> None:
        """Queue all hits."""
        await self._queue_waiting()
        if self._collecting:
            self._waiting.append(self._collecting)
            self._collecting = new_collection(self._folder)
            await self._queue_waiting()
        if self._dropped:
            log.error("%d hits were not counted: the store was unavailable", self._dropped)
            self._dropped = 0

    async def close(self) -> None:
        """Queue what is left. If the store is unavailable, leave it to the next web server."""
        try:
            await self.flush()
        except StoreOutage as exc:
            log.warning("the last hits wait for the next web server on this machine: %s", exc)
            for each in (*self._waiting, self._collecting):
                each.leave()

    def _start_flushing(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = self._background.start(self._flush_soon(), "queueing of hits")

    async def _flush_soon(self) -> None:
        while self._collecting or self._waiting:
            await asyncio.sleep(_COLLECT_SECONDS)
            try:
                await self.flush()
            except StoreOutage as exc:
                log.warning("hits wait for the store: %s", exc)

    async def _queue_waiting(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            while (batch := first.batch()) is not None:
                await self._queue.put(msgspec.json.encode(batch).decode())
                first.batch_queued()
            first.remove()
            del self._waiting[0]

    def _digest(self, place: str, agent: str) -> str:
        now = time.monotonic()
        if now >= self._key_until:
            self._key, self._key_until = secrets.token_bytes(32), now + _KEY_SECONDS
        text = f"{place}\n{agent}".encode("utf-8", "replace")
        return hashlib.blake2b(text, key=self._key, digest_size=8).hexdigest()
