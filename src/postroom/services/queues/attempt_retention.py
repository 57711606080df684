"""Histories of queue messages that are gone are removed after a while.

Whoever accepts or deletes a message forgets its history at once. This is for the others: what was
dropped keeps its history for some time, because it is the only trace; a purge does not know what it
removes; and a process may die between the end of a message and that of its history.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from postroom.domain.queues.queue_names import SUFFIXES, base_queue, root_queue
from postroom.services.queues.attempts import DROPPED, TABLE, HistoryEntry, MessageHistory
from postroom.storage import InvalidName, Store, lt

_CLOCKS_DIFFER = timedelta(days=1)
"""The store says when a message was put, a host when it failed."""


class HistoryRetention:
    def __init__(
        self, store: Store, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._store = store
        self._rows = store.table(TABLE)
        self._history = MessageHistory(store)
        self._now = now

    async def forget_old(self, kept: timedelta) -> int:
        """Remove histories to which nothing was added for so long; answers how many.

        Not those of messages that may still wait somewhere. What an interruption leaves of one is
        old as well, so the next round removes it.
        """
        before = self._now() - kept
        places = _Places(self._store, before)
        removed, latest = 0, ""
        async for row in self._rows.scan(where=lt("Time", before)):
            if row.partition == latest:
                continue
            latest = row.partition
            entries = await self._history.of(latest)
            if entries and entries[-1].time < before and not await places.may_hold(entries[-1]):
                await self._history.forget(latest)
                removed += 1
        return removed


class _Places:
    """Where a message that was put before a moment may be. Each queue is asked once."""

    def __init__(self, store: Store, before: datetime) -> None:
        self._store = store
        self._before = before + _CLOCKS_DIFFER
        self._known: dict[str, bool] = {}

    async def may_hold(self, last: HistoryEntry) -> bool:
        """Whether the message that this happened to, at last, may be in a queue."""
        if last.event == DROPPED:
            return False
        for queue in _where_it_may_be(last):
            if queue not in self._known:
                self._known[queue] = await self._has_old_ones(queue)
            if self._known[queue]:
                return True
        return False

    async def _has_old_ones(self, queue: str) -> bool:
        """Messages come in the order of their arrival: behind a young one there is no old one."""
        try:
            info = await self._store.queue(queue).info()
        except InvalidName:
            return False  # too long to be the name of a queue
        return info.length > 0 and (info.oldest is None or info.oldest < self._before)


def _where_it_may_be(last: HistoryEntry) -> set[str]:
    """Where it was, where it went, and every queue that belongs to one of these."""
    named = {name for name in (last.queue, last.to) if name}
    bases = {base for name in named for base in (base_queue(name), root_queue(name))}
    return named | bases | {base + suffix for base in bases for suffix in SUFFIXES}
