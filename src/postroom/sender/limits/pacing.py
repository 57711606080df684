"""The limit on all emails per second, as a transport that waits."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Final

from postroom import clock
from postroom.mail.mailing import Mailing, Recipient
from postroom.sender.limits.email_rates import EmailRate, reserve
from postroom.sender.limits.stored_limits import OVERALL, Clock, Found, Moments, StoredLimits
from postroom.storage import Store, StoreOutage
from postroom.transport.contract import ConnectionQuota, PartWatcher, Result, Transport, Watcher

log = logging.getLogger(__name__)

# Emails sent together: without this, a low limit would send in bursts, and a crash waste more.
_CHUNK_SECONDS: Final = 0.25
_STORE_SECONDS: Final = 1.0


class PacedTransport(Transport):
    """Sends a batch in chunks, each at its time, and one batch after the other, so that the first
    ones finish soon and their data is still fresh."""

    def __init__(
        self, transport: Transport, store: Store, rate: EmailRate, clock: Clock = clock.timestamp
    ) -> None:
        self._transport = transport
        self._throttle = StoredLimits(store, OVERALL)
        self._rate = rate
        self._clock = clock
        self._turn = asyncio.Lock()
        self._chunk = max(1, int(rate.per_second * _CHUNK_SECONDS))

    @property
    def concurrency(self) -> int:
        """At most the emails of one second."""
        return min(self._transport.concurrency, math.ceil(self._rate.per_second))

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        """If cancelled while waiting, hand over nothing more."""
        chunks: list[asyncio.Task[list[Result]]] = []
        # A chunk does not wait for the results of the one before; nor does the next batch.
        async with asyncio.TaskGroup() as under_way, self._turn:
            for start in range(0, len(recipients), self._chunk):
                chunk = recipients[start : start + self._chunk]
                await self._wait_for_slots(len(chunk))
                sending = self._transport.send(mailing, chunk, PartWatcher(watcher, start), quota)
                chunks.append(under_way.create_task(sending))
        return [result for sent in chunks for result in sent.result()]

    async def check(self) -> str:
        return await self._transport.check()

    async def close(self) -> None:
        await self._transport.close()

    async def _wait_for_slots(self, count: int) -> None:
        at = await self._reserve(count)
        await asyncio.sleep(max(0.0, at - self._clock()))

    async def _reserve(self, count: int) -> float:
        """Return when that many emails may be sent. During a store outage they wait."""
        while True:
            try:
                return await self._throttle.change(
                    [OVERALL], lambda found: self._slots(found, count)
                )
            except StoreOutage as exc:
                log.warning("emails wait because the limit cannot be read: %s", exc)
                await asyncio.sleep(_STORE_SECONDS)

    def _slots(self, found: Found, count: int) -> tuple[Found, float]:
        slots = reserve(self._rate, found[OVERALL].used_up, count, self._clock())
        return {OVERALL: Moments(slots.used_up)}, slots.at
