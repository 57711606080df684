"""Finishes what is left to do about suppressions, next to the scheduler.

Every ten seconds, one process takes the work items of `mail/suppress`: addresses whose suppressions
are written onto the rows of subscribers once more, finished messages whose refusals may suppress
addresses, and messages whose bounces are to be counted. Once per hour, it lifts suppressions that
have expired, and compares the rates of the last 30 days with what providers tolerate. An item is
deleted when it is done; one that fails comes back, and is moved to the poison queue after ten
attempts.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, assert_never

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.errors import DomainError, Invalid, NoSuch
from postroom.domain.messages.pages import SUPPRESS_QUEUE
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.suppression.delivery_limits import DeliveryLimits
from postroom.services.audience.suppression.suppression_items import (
    SuppressionItem,
    SuppressionTask,
    parse_suppression_item,
)
from postroom.services.audience.suppression.suppressions import SuppressionService
from postroom.services.concurrency import run_periodically
from postroom.services.queues.held_items import HeldItems
from postroom.storage import QueueMessage, Store, StoreOutage

log = logging.getLogger(__name__)

_EVERY: Final = 10.0  # seconds; on Azure, each round costs a few transactions
_EXPIRY_EVERY: Final = 3600.0
_LEASE: Final = 60.0  # of an item; renewed, because the refusals of a large message take a while
_MOST_ATTEMPTS: Final = 10
_AT_ONCE: Final = 8


class SuppressionWork:
    def __init__(
        self,
        store: Store,
        suppressions: SuppressionService,
        limits: DeliveryLimits,
        lease: float = _LEASE,
    ) -> None:
        self._store = store
        self._queue = store.queue(SUPPRESS_QUEUE)
        self._suppressions = suppressions
        self._lease = lease
        self.limits = limits
        self._expired_at = -_EXPIRY_EVERY

    async def run(self, stopping: asyncio.Event) -> None:
        await run_periodically(
            self._store, "suppression", lambda _: self._work(), every=_EVERY, stopping=stopping
        )

    async def _work(self) -> None:
        try:
            await self.work_through()
            if clock.monotonic() - self._expired_at >= _EXPIRY_EVERY:
                await self._suppressions.lift_expired()
                await self.limits.check_period()
                self._expired_at = clock.monotonic()
        except DomainError:  # tried again in a moment
            log.exception("suppressions could not be updated")

    async def work_through(self) -> int:
        """Do all items that are ready; return how many there were."""
        count = 0
        while items := await self._queue.receive(_AT_ONCE, lease=self._lease):
            held = HeldItems(self._queue, items, self._lease)
            async with held.renewed():
                for item in items:
                    await self._handle(item, held)
            count += len(items)
        return count

    async def _handle(self, item: QueueMessage, held: HeldItems) -> None:
        try:
            await self._do(parse_suppression_item(item.body))
        except NoSuch as exc:
            log.info("nothing to do for %s: %s", item.body, exc)
        except StoreOutage:
            raise
        except Exception as exc:
            if not isinstance(exc, Invalid) and item.dequeue_count < _MOST_ATTEMPTS:
                log.exception("%s failed and will be tried again", item.body)
                await held.release(item, delay=2.0**item.dequeue_count)
                return
            await held.move_to_poison(item, exc)
            return
        await held.delete(item)

    async def _do(self, item: SuppressionItem) -> None:
        match item.task:
            case SuppressionTask.APPLY:
                await self._suppressions.apply(Address(item.subject))
            case SuppressionTask.APPLY_MANY:
                await self._suppressions.apply_to_many(map(Address, item.subject.split(" ")))
            case SuppressionTask.REFUSED:
                await self._suppressions.record_refusals(MessageRef(item.subject))
            case SuppressionTask.COUNT:
                await self.limits.check(MessageRef(item.subject))
            case _:
                assert_never(item.task)
