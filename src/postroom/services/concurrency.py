"""Work that several processes do at the same time: retried when one loses a race, or done by one of
them at a time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from postroom.domain.errors import Overtaken
from postroom.storage import Conflict, Lease, LeaseLost, Store, StoreError
from postroom.watchdog import end_tasks

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

_MOST_ATTEMPTS: Final = 50
_PAUSE_STEP, _LONGEST_PAUSE = 0.002, 0.05
"""Seconds. Pauses of random, growing length keep many writers from colliding again and again; the
first attempt is repeated immediately."""


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]],
    kind: str,
    name: str,
    *,
    most: int = _MOST_ATTEMPTS,
    final: type[Conflict] | tuple[()] = (),
) -> T:
    """Return the result of `attempt`; call it again whenever it loses a race.

    `attempt` reads, decides and writes under ETags. It has lost if it raises `Conflict` or
    `Overtaken`. Raise `Overtaken` for this kind and name if it loses `most` times. A `final`
    conflict is raised at once: another attempt would meet it, too.
    """
    for count in range(most):
        try:
            return await attempt()
        except final:
            raise
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
        await end_tasks([task])
        raise


def ignore_failure(task: asyncio.Task[Any]) -> None:
    """Mark the failure of a task that several callers share as handled. Callers that still wait for
    it get the error, and the next caller starts it again."""
    if not task.cancelled():
        task.exception()


async def all_of(works: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run all at the same time. If one fails, cancel the others and raise its error unchanged."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await end_tasks(tasks)


log = logging.getLogger(__name__)

_LEASE_SECONDS = 60.0


async def run_periodically(
    store: Store,
    name: str,
    work: Callable[[Lease], Awaitable[object]],
    *,
    every: float,
    stopping: asyncio.Event,
    lease: float = _LEASE_SECONDS,
) -> None:
    """Do the work every `every` seconds until `stopping`, unless another process is doing it.

    The right to do so is a lease, which is renewed while the work takes longer. Work that is held
    up for longer than `lease` must tolerate that another process begins it, too. After a kill,
    another process begins it at most `lease` seconds late.
    """
    while not stopping.is_set():
        pause = every
        try:
            if not await _do_alone(store, name, work, lease):
                pause = min(every, lease)
        except StoreError as exc:
            log.warning("%s failed and will be retried in %g seconds: %s", name, every, exc)
        try:
            await asyncio.wait_for(stopping.wait(), pause)
        except TimeoutError:
            continue


async def _do_alone(
    store: Store, name: str, work: Callable[[Lease], Awaitable[object]], seconds: float
) -> bool:
    """Do the work under a lease; return False if another process has it."""
    lease = await store.acquire_lease(name, seconds=seconds)
    if lease is None:
        return False
    renewing = asyncio.create_task(_renew(store, lease, seconds))
    try:
        await work(lease)
    finally:
        await end_tasks([renewing])
        try:
            await store.release_lease(lease)
        except LeaseLost:
            log.info("%s: another process has taken over", name)
    return True


async def _renew(store: Store, lease: Lease, seconds: float) -> None:
    """Renew a lease. If it is lost, another process works, too."""
    while True:
        await asyncio.sleep(seconds / 3)
        try:
            await store.renew_lease(lease)
        except (LeaseLost, StoreError) as exc:
            log.info("the lease of %s could not be renewed: %s", lease.name, exc)
