"""Keeps to warm-up plans: emails beyond a day's volume wait until the next day."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from datetime import date
from typing import Final

from postroom import clock
from postroom.domain.errors import Overtaken
from postroom.domain.messages.delivery.warm_up import WarmUpPlan
from postroom.services.messages.sending.warm_ups import WarmUpService, plans_for
from postroom.storage import StoreError, StoreUnavailable

log = logging.getLogger(__name__)

_FRESH_SECONDS: Final = 2.0


class WarmUpLimits:
    def __init__(self, service: WarmUpService) -> None:
        self._service = service
        self._plans: list[WarmUpPlan] = []
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    async def plans(self, from_domain: str) -> Sequence[WarmUpPlan]:
        """Return the plans that emails from a domain count for: mostly none. They are read at most
        every two seconds; during a store outage, the known ones count."""
        if clock.monotonic() - self._read_at >= _FRESH_SECONDS:
            async with self._reading:
                if clock.monotonic() - self._read_at >= _FRESH_SECONDS:
                    await self._read()
        return plans_for(self._plans, from_domain) if self._plans else ()

    async def _read(self) -> None:
        try:
            self._plans = await self._service.plans()
        except StoreError as exc:
            log.warning("warm-up plans cannot be read: %s", exc)
        self._read_at = clock.monotonic()

    async def left(self, plans: Sequence[WarmUpPlan]) -> int | None:
        """Return how many emails may be sent today; None: any number."""
        return await self._service.left(plans) if plans else None

    async def take(self, plans: Sequence[WarmUpPlan], count: int, day: date) -> int:
        """Take up to this many emails from a day; return how many may be sent."""
        try:
            return await self._service.take(plans, count, day) if plans else count
        except Overtaken as exc:
            raise StoreUnavailable("the warm-up plan could not be changed") from exc

    async def give_back(self, plans: Sequence[WarmUpPlan], count: int, day: date) -> None:
        """Return emails that were not sent to their day. During a store outage, they are wasted."""
        if not plans or not count:
            return
        try:
            await self._service.give_back(plans, count, day)
        except (StoreError, Overtaken) as exc:
            log.warning("%d emails of the warm-up volume of %s are wasted: %s", count, day, exc)
