"""How far a message has come, and the holds that its emails wait for.

Counting reads a row for each page: ten thousand of them for a million emails. So a message is
counted once for all viewers, and again in the background once the figures are a second old. None of
this is stored: figures of an unfinished message would be outdated when they are written, and a
finished one has its sum (`Message.counts`), which never changes again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from postroom import clock
from postroom.domain.errors import NotNow
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.services.concurrency import ignore_failure
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.sending.hold_rows import HoldService
from postroom.services.messages.sending.holds import (
    ACCOUNT,
    Hold,
    Holds,
    WaitingReasons,
    message_key,
)
from postroom.services.messages.sending.outcomes import OutcomeService

_FRESH = 1.0  # seconds for which figures are recent enough
_SHARE = 20  # counting takes at most one twentieth of the time
_STALE = 15.0  # older figures are not shown: the caller waits for new ones
_RATE_OVER = 20.0  # seconds over which the rate is taken
_REMEMBERED = 200  # messages


class Progress(msgspec.Struct, frozen=True):
    """The progress of a message. `rate` is in emails per second, None while it is unknown."""

    counts: Counts
    rate: float | None = None
    waiting: WaitingReasons = WaitingReasons()

    @property
    def seconds_left(self) -> float | None:
        return self.counts.pending / self.rate if self.rate else None


class LastCount:
    """The last count of one message, and how long it took."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.waiting = WaitingReasons()
        self.at = float("-inf")
        self.took = 0.0
        self.counting: asyncio.Task[None] | None = None
        self.speed = SpeedMeter(_RATE_OVER)

    def note(self, message: Message, counts: Counts, now: float, took: float) -> None:
        self.counts, self.at, self.took = counts, now, took
        self.speed.note(message, counts.done, now)


class ProgressService:
    def __init__(self, outcomes: OutcomeService) -> None:
        self._outcomes = outcomes
        self._seen: OrderedDict[MessageRef, LastCount] = OrderedDict()

    async def of(self, message: Message) -> Progress:
        """Return the progress of a message; that of an unfinished one may be seconds old."""
        if message.counts is not None:
            return Progress(message.counts)
        seen = self._remember(message.ref)
        age = clock.monotonic() - seen.at
        if age > max(_FRESH, _SHARE * seen.took) and seen.counting is None:
            seen.counting = asyncio.create_task(self._count(message, seen))
            seen.counting.add_done_callback(ignore_failure)
        if age > _STALE and seen.counting is not None:
            await asyncio.shield(seen.counting)
        return Progress(seen.counts, seen.speed.per_second, seen.waiting)

    async def soon(self, message: Message, patience: float) -> Progress | None:
        """Return the progress if it is known within `patience` seconds. If not, None: counting goes
        on, and a later call returns the figures."""
        try:
            async with asyncio.timeout(patience):
                return await self.of(message)
        except TimeoutError:
            return None

    async def _count(self, message: Message, seen: LastCount) -> None:
        started = clock.monotonic()
        try:
            counts, seen.waiting = await self._outcomes.counts_and_waiting(message)
            now = clock.monotonic()
            seen.note(message, counts, now, now - started)
        finally:
            seen.counting = None

    def _remember(self, ref: MessageRef) -> LastCount:
        seen = self._seen.setdefault(ref, LastCount())
        self._seen.move_to_end(ref)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return seen


class SendingState(msgspec.Struct, frozen=True):
    """The counts of a message, what its emails wait for, and the holds among that."""

    counts: Counts
    waiting: WaitingReasons = WaitingReasons()
    holds: list[Hold] = []


class MessageHolds:
    def __init__(
        self, holds: HoldService, messages: MessageService, outcomes: OutcomeService
    ) -> None:
        self._holds = holds
        self._messages = messages
        self._outcomes = outcomes

    async def sending_state(self, message: Message, known: Holds | None = None) -> SendingState:
        """Return the state of a message now. `known` saves reading the holds."""
        counts, waiting = await self._outcomes.counts_and_waiting(message)
        return SendingState(counts, waiting, await self.of(message, waiting, known))

    async def of(
        self, message: Message, waiting: WaitingReasons, known: Holds | None = None
    ) -> list[Hold]:
        """Return the holds that concern a message which is being sent, the widest first."""
        if message.queued_at is None or message.status in FINAL:
            return []
        holds = await self._holds.open_holds() if known is None else known
        concerned = {ACCOUNT, message_key(message.ref), *waiting.held_by}
        return sorted(_among(holds, concerned), key=lambda hold: (hold.key != ACCOUNT, hold.key))

    async def try_now(self, ref: str) -> Message:
        """Probe the holds of a message immediately. `NoSuch`, `NotNow` if it waits for none."""
        message = await self._messages.get(ref)
        found = (await self.sending_state(message)).holds
        if not await self._holds.try_now([hold.key for hold in found]):
            raise NotNow(f"the message {ref} is not waiting for a hold")
        return message


def _among(holds: Holds, keys: Iterable[str]) -> list[Hold]:
    return [hold for hold in holds.by_key.values() if hold.key in keys]


class SpeedMeter:
    """Emails per second over the last `window` seconds, without pauses."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._done: deque[tuple[float, int]] = deque()
        self._resumptions = 0

    def note(self, message: Message, done: int, now: float) -> None:
        """Record how many emails were done at this moment."""
        if message.status is MessageStatus.PAUSED or message.resumptions != self._resumptions:
            self._done.clear()
        self._resumptions = message.resumptions
        self._done.append((now, done))
        while len(self._done) > 2 and self._done[1][0] <= now - self._window:
            self._done.popleft()

    @property
    def per_second(self) -> float | None:
        """The speed; None while it is unknown."""
        if len(self._done) < 2:
            return None
        (first_at, first), (last_at, last) = self._done[0], self._done[-1]
        return max(0.0, (last - first) / (last_at - first_at)) if last_at > first_at else None
