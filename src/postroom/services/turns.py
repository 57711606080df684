"""Work that any number of processes offer to do, and one at a time does, now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from postroom.storage import LeaseLost, Store, StoreOutage

log = logging.getLogger(__name__)

_LEASE_SECONDS = 60.0


async def now_and_then(
    store: Store,
    name: str,
    work: Callable[[], Awaitable[object]],
    *,
    every: float,
    stopping: asyncio.Event,
) -> None:
    """Until `stopping`: do the work every so many seconds, unless another process is at it.

    The work must bear being done by two for a moment: a process that is held up keeps no lease.
    """
    while not stopping.is_set():
        try:
            await _alone(store, name, work)
        except StoreOutage as exc:
            log.warning("%s waits for the store: %s", name, exc)
        try:
            await asyncio.wait_for(stopping.wait(), every)
        except TimeoutError:
            continue


async def _alone(store: Store, name: str, work: Callable[[], Awaitable[object]]) -> None:
    lease = await store.acquire_lease(name, seconds=_LEASE_SECONDS)
    if lease is None:
        return
    try:
        await work()
    finally:
        try:
            await store.release_lease(lease)
        except LeaseLost:
            log.info("%s: another process is at it by now", name)
