"""Periodic work that any number of processes offer to do and one at a time does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from postroom.storage import Lease, LeaseLost, Store, StoreError

log = logging.getLogger(__name__)

_LEASE_SECONDS = 60.0


async def run_periodically(
    store: Store,
    name: str,
    work: Callable[[Lease], Awaitable[object]],
    *,
    every: float,
    stopping: asyncio.Event,
) -> None:
    """Do the work every so many seconds until `stopping`, unless another process is doing it.

    The right to do so is a lease of 60 seconds, which long work may renew. Work that is held up for
    longer must tolerate that another process begins it, too.
    """
    while not stopping.is_set():
        try:
            await _do_alone(store, name, work)
        except StoreError as exc:
            log.warning("%s failed, and is repeated in %g seconds: %s", name, every, exc)
        try:
            await asyncio.wait_for(stopping.wait(), every)
        except TimeoutError:
            continue


async def _do_alone(store: Store, name: str, work: Callable[[Lease], Awaitable[object]]) -> None:
    lease = await store.acquire_lease(name, seconds=_LEASE_SECONDS)
    if lease is None:
        return
    try:
        await work(lease)
    finally:
        try:
            await store.release_lease(lease)
        except LeaseLost:
            log.info("%s: another process has taken over", name)
