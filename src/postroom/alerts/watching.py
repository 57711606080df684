"""Events that are worth a warning are told, each at least once, by one of all candidates.

What was told last is kept in the store after it was told: a crash in between tells it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from postroom.alerts.channels import Channel, NotTold
from postroom.services.events import Event, EventService, Severity
from postroom.services.records import read
from postroom.services.turns import now_and_then
from postroom.storage import Entity, Store

log = logging.getLogger(__name__)

TABLE = "alerts"
_KEY = ("alerts", "last")
_TRIES = 20  # then it is left to the page of events


class Alerts:
    def __init__(
        self,
        store: Store,
        channels: Sequence[Channel],
        *,
        least: Severity = Severity.WARNING,
        pause: float = 5.0,
    ) -> None:
        self._store = store
        self._table = store.table(TABLE)
        self._events = EventService(store)
        self._channels = channels
        self._least = least
        self._pause = pause
        self._failures = 0

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: tell what happens from now on."""
        await now_and_then(
            self._store, "alerts", self.tell_new_ones, every=self._pause, stopping=stopping
        )

    async def tell_new_ones(self) -> int:
        """Answers how many there were. The first look only notes where to begin."""
        found = await self._table.get(*_KEY)
        if found is None:
            newest = await self._events.since(None, least=self._least, limit=1)
            await self._remember(newest[-1].id if newest else "")
            return 0
        told = 0
        last = read(found, "EventId", str)
        for event in await self._events.since(last or None, least=self._least):
            if not await self._tell(event):
                break
            await self._remember(event.id)
            told += 1
        return told

    async def _tell(self, event: Event) -> bool:
        try:
            for channel in self._channels:
                await channel.tell(event)
        except NotTold as exc:
            self._failures += 1
            log.warning("nobody was told of %r: %s", event.text, exc)
            if self._failures < _TRIES:
                return False
        self._failures = 0
        return True

    async def _remember(self, event_id: str) -> None:
        await self._table.upsert(Entity(*_KEY, {"EventId": event_id}))
