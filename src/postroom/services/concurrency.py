"""Work that several processes do at the same time: retried when one loses a race, or done by one of
them at a time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from postroom.domain.errors import Overtaken
from postroom.storage import Conflict, Lease, LeaseLost, Store, StoreError

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

_MOST_ATTEMPTS: Final = 50
_PAUSE_STEP, _LONGEST_PAUSE = 0.002, 0.05
"""Seconds. Pauses of random, growing length keep many writers from colliding again and again; the
first attempt is repeated at once."""


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], kind: str, name: str, *, most: int = _MOST_ATTEMPTS
) -> T:
    """Return what `attempt` returns; call it again whenever it loses a race.

    `attempt` reads, decides and writes under ETags. It has lost if it raises `Conflict` or
    `Overtaken`. Raise `Overtaken` for this kind and name if it loses `most` times.
    """
    for count in range(most):
        try:
            return await attempt()
        except (Conflict, Overtaken):
            longest = min(_PAUSE_STEP * count, _LONGEST_PAUSE)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311
    raise Overtaken(kind, name)


async def both(one: Coroutine[Any, Any, A], other: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Run two coroutines at the same time, for half the cost of `gather`."""
    task = asyncio.ensure_future(other)
    try:
        return await one, await task
    except BaseException:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


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
    """Do the work every `every` seconds until `stopping`, unless another process is doing it.

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
