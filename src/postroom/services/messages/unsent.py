"""Whether none of a paused message was sent, so that it can still be edited."""

from __future__ import annotations

import asyncio
from typing import Final

from postroom.domain.errors import NotNow
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import page_partition
from postroom.services import entities
from postroom.storage import Entity, KeyRange, Store

_PAUSE_SECONDS: Final = 1.0
"""Within this time every sender has heard of a pause, or has claimed the page that it begins with:
senders remember a message's status for half a second."""


class UnsentCheck:
    def __init__(self, store: Store) -> None:
        self._pages = store.table(entities.PAGES)
        self._emails = store.table(entities.MESSAGES)

    async def check(self, message: Message) -> None:
        """Raise `NotNow` if some of a message was sent, may have been, or is being sent."""
        await self._look(message)
        await asyncio.sleep(_PAUSE_SECONDS)
        await self._look(message)

    async def _look(self, message: Message) -> None:
        partition = KeyRange.only(entities.pages_partition(message.day, message.ref))
        async for row in self._pages.scan(partition):
            if "," in row.row:
                raise NotNow("a sender is still busy with this message: try again in a moment")
            if await self._was_sent(message, row):
                raise NotNow("some of this message has been sent, so it cannot be edited any more")

    async def _was_sent(self, message: Message, page: Entity) -> bool:
        counts = entities.counts_from(page)
        if counts.accepted or counts.refused or counts.in_doubt or counts.possible_duplicates:
            return True
        if not counts.deferred:
            return False
        partition = page_partition(message.day, message.ref, int(page.row))
        emails = await self._emails.read(entities.EmailRow, partition)
        return any(email.WasInDoubt for email in emails.values())
