"""Estimates of how long sending a message takes."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName, parse_list_name
from postroom.domain.errors import Invalid
from postroom.domain.messages.audiences import EVERYBODY, Audience
from postroom.domain.messages.messages import Message
from postroom.services.audience.growth.list_sizes import CurrentSize, ListSizes
from postroom.services.audience.targeting.audiences import COUNTED_AT_ONCE, AudienceService
from postroom.services.messages.message_times import MessageTimes

_LOOKED_AT: Final = 10  # messages, newest first
_PAUSED_SECONDS: Final = 0.5
_ENOUGH: Final = 100  # emails: with fewer, starting and stopping would distort the rate


class Estimate(msgspec.Struct, frozen=True):
    """`recipients` is exact unless there is a `counted_at`: see `CurrentSize`.

    `per_second` is the configured limit, or the rate of recent messages; None if neither is known.
    """

    recipients: int
    counted_at: datetime | None
    per_second: float | None

    @property
    def seconds(self) -> float | None:
        return self.recipients / self.per_second if self.per_second else None


class EstimateService:
    def __init__(self, sizes: ListSizes, audiences: AudienceService, times: MessageTimes) -> None:
        self._sizes = sizes
        self._audiences = audiences
        self._times = times

    async def of(
        self, list_name: str, limit: float | None, audience: Audience = EVERYBODY
    ) -> Estimate:
        """Return the estimate for a message to a list; `limit` is the configured rate. To count a
        part of a list, all of it is read. `Invalid` audience."""
        per_second = limit or await self._measured()
        if not audience.is_everybody:
            counted = await self._audiences.count(list_name, audience)
            return Estimate(counted.will_receive, None, per_second)
        name = parse_list_name(list_name)
        size = await self._size(name)
        paused = await self._paused(name) if size.recipients <= COUNTED_AT_ONCE else 0
        return Estimate(max(size.recipients - paused, 0), size.counted_at, per_second)

    async def check_has_recipients(self, list_name: str, audience: Audience = EVERYBODY) -> None:
        """Raise `Invalid` if nobody would receive a message now."""
        if not (await self.of(list_name, None, audience)).recipients:
            raise Invalid(
                "require_recipients", f"nobody on {list_name} would receive this message now"
            )

    async def _size(self, name: ListName) -> CurrentSize:
        return (await self._sizes.of([name]))[name]

    async def _paused(self, name: ListName) -> int:
        """Return how many have paused; 0 if it takes too long to count them now."""
        try:
            return await asyncio.wait_for(self._audiences.count_paused(name), _PAUSED_SECONDS)
        except TimeoutError:
            return 0

    async def _measured(self) -> float | None:
        recent = await self._times.done(limit=_LOOKED_AT)
        return next((rate for rate in map(_rate, recent.messages) if rate is not None), None)


def _rate(message: Message) -> float | None:
    counts, began, ended = message.counts, message.queued_at, message.completed_at
    if counts is None or began is None or ended is None or counts.accepted < _ENOUGH:
        return None
    return counts.accepted / max((ended - began).total_seconds(), 0.001)
