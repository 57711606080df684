"""Messages that are being sent, for Home and the tab *Sending*: how far each has come, and what all
of its emails wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from postroom.domain.messages.messages import Message, MessageStatus
from postroom.services.messages.sending.hold_rows import why_all_wait
from postroom.services.messages.sending.progress import Progress
from postroom.web.requests.visit import Visit

_PATIENCE: Final = 0.03
"""Seconds for which a page waits for figures: those of a million emails are shown when the page
refreshes itself."""


class MessageUnderWay(msgspec.Struct, frozen=True):
    """A message, its progress if it is known yet, and why all of its emails are on hold, if so."""

    message: Message
    progress: Progress | None
    held: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is sent at the moment: the message is paused or on hold."""
        return bool(self.held) or self.message.status is MessageStatus.PAUSED


async def under_way(visit: Visit, messages: Sequence[Message]) -> list[MessageUnderWay]:
    """Return the progress and the holds of these messages."""
    soon = visit.services.progress.soon
    progress = await asyncio.gather(*(soon(each, _PATIENCE) for each in messages))
    holds = await visit.services.holds.open_holds()
    return [
        MessageUnderWay(message, where, why_all_wait(holds, message))
        for message, where in zip(messages, progress, strict=True)
    ]
