"""Whether a paused message can still be edited."""

from __future__ import annotations

import asyncio
from typing import Final

from postroom.domain.errors import NotNow
from postroom.domain.messages.messages import Message
from postroom.services.messages.sending.page_rows import FREE, Page, PageRows
from postroom.storage import Store

_PAUSE_SECONDS: Final = 1.0
"""Within this time every sender has noticed a pause, or has claimed the page that it starts with:
senders remember a message's status for half a second."""


class UnsentCheck:
    """Checks that none of a paused message was sent, so that it can still be edited."""

    def __init__(self, store: Store) -> None:
        self._pages = PageRows(store)

    async def check(self, message: Message) -> None:
        """Raise `NotNow` if some of a message was sent, may have been, or is being sent."""
        await self._look(message)
        await asyncio.sleep(_PAUSE_SECONDS)
        await self._look(message)

    async def _look(self, message: Message) -> None:
        async for page in self._pages.whole(message):
            if page.claim != FREE:
                raise NotNow("a sender is still busy with this message: try again in a moment")
            if _was_sent(page):
                raise NotNow("some of this message has been sent, so it can no longer be edited")


def _was_sent(page: Page) -> bool:
    """Return whether an email of the page was sent, or may have been and is pending again."""
    counts = page.counts
    if counts.accepted or counts.refused or counts.in_doubt:
        return True
    return not page.emails.is_new and any(state.was_in_doubt for _, state in page.emails)
