"""The holds that a message's emails wait for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from postroom.domain.errors import NotNow
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import FINAL, Message
from postroom.services.messages.hold_rows import HoldService
from postroom.services.messages.holds import ACCOUNT, Hold, Holds, message_key
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.outcomes import OutcomeService
from postroom.services.messages.waiting_reasons import Waiting


class Standing(msgspec.Struct, frozen=True):
    """How a message stands: its counts, what its emails wait for, and the holds among that."""

    counts: Counts
    waiting: Waiting = Waiting()
    holds: list[Hold] = []


class MessageHolds:
    def __init__(
        self, holds: HoldService, messages: MessageService, outcomes: OutcomeService
    ) -> None:
        self._holds = holds
        self._messages = messages
        self._outcomes = outcomes

    async def standing(self, message: Message, known: Holds | None = None) -> Standing:
        """Return how a message stands now. `known` saves a look at the holds."""
        counts, waiting = await self._outcomes.counts_and_waiting(message)
        return Standing(counts, waiting, await self.of(message, waiting, known))

    async def of(
        self, message: Message, waiting: Waiting, known: Holds | None = None
    ) -> list[Hold]:
        """Return the holds that concern a message which is being sent, the widest first."""
        if message.queued_at is None or message.status in FINAL:
            return []
        holds = await self._holds.open_holds() if known is None else known
        concerned = {ACCOUNT, message_key(message.ref), *waiting.held_by}
        return sorted(_among(holds, concerned), key=lambda hold: (hold.key != ACCOUNT, hold.key))

    async def try_now(self, ref: str) -> Message:
        """Probe the holds of a message at once. `NoSuch`, `NotNow` if it waits for none."""
        message = await self._messages.get(ref)
        found = (await self.standing(message)).holds
        if not await self._holds.try_now([hold.key for hold in found]):
            raise NotNow(f"the message {ref} does not wait for a hold")
        return message


def _among(holds: Holds, keys: Iterable[str]) -> list[Hold]:
    return [hold for hold in holds.by_key.values() if hold.key in keys]
