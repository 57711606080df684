"""Alert somebody to events that are worth a warning: each at least once, by one of all candidates.

| table    | partition | row       | holds                                         |
|----------|-----------|-----------|-----------------------------------------------|
| `alerts` | `alerts`  | `mail`, … | EventId: the last event this channel was sent |
| `alerts` | `alerts`  | `last`    | the same for all channels, by an old version  |

Channels do not wait for each other: an alert that the mail server is away cannot go by mail, and
must still reach the webhook. What a channel was told last is stored afterwards, so a crash in
between tells it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from postroom.alerts.channels import Channel, NotTold
from postroom.services.entities import read
from postroom.services.events import EventService, Severity
from postroom.services.periodic import run_periodically
from postroom.storage import Entity, Store

log = logging.getLogger(__name__)

TABLE: Final = "alerts"
_PARTITION, _FOR_ALL = "alerts", "last"
_GIVE_UP_AFTER: Final = timedelta(days=1)  # yesterday's news is left to the page of events


class Alerts:
    def __init__(
        self,
        store: Store,
        events: EventService,
        channels: Sequence[Channel],
        *,
        least: Severity = Severity.WARNING,
        pause: float = 5.0,
    ) -> None:
        self._store = store
        self._table = store.table(TABLE)
        self._events = events
        self._channels = channels
        self._least = least
        self._pause = pause

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: tell what happens from now on."""
        await run_periodically(
            self._store,
            "alerts",
            lambda _: self.tell_new_ones(),
            every=self._pause,
            stopping=stopping,
        )

    async def tell_new_ones(self) -> int:
        """Alert every channel to what is new for it; return how often that succeeded.

        The first call only records where to begin.
        """
        return sum(await asyncio.gather(*map(self._tell_channel, self._channels)))

    async def _tell_channel(self, channel: Channel) -> int:
        last = await self._last_told(channel)
        if last is None:
            newest = await self._events.since(None, least=self._least, limit=1)
            await self._remember(channel, newest[-1].id if newest else "")
            return 0
        told = 0
        for event in await self._events.since(last or None, least=self._least):
            try:
                await channel.tell(event)
                told += 1
            except NotTold as exc:
                log.warning("no alert to %r by %s: %s", event.text, channel.name, exc)
                if datetime.now(UTC) - event.at < _GIVE_UP_AFTER:
                    break
            await self._remember(channel, event.id)
        return told

    async def _last_told(self, channel: Channel) -> str | None:
        for row in (channel.name, _FOR_ALL):
            found = await self._table.get(_PARTITION, row)
            if found is not None:
                return read(found, "EventId", str)
        return None

    async def _remember(self, channel: Channel, event_id: str) -> None:
        await self._table.upsert(Entity(_PARTITION, channel.name, {"EventId": event_id}))
