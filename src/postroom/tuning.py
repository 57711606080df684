"""Tuning of long-running processes: event loop, garbage collector, cores."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

_STAY_SECONDS = 1.0
_MOVE_SECONDS = 0.01
_THREADS = Path("/proc/self/task")
_FREE: set[int] = set()  # native ids of threads that may use every core
_CORE = 36  # of the fields after the name in `stat`: see proc(5), field 39


def quick_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop if it is installed: it halves the processor time per email."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def collect_less() -> None:
    """Collect garbage less often: a page creates thousands of objects and hardly ever a cycle.
    Imported objects stay, and are not searched again."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@asynccontextmanager
async def kept_on_one_core() -> AsyncIterator[None]:
    """Keep all threads of this process on one core, where they take turns.

    The event loop and the threads of a store share the GIL. The loop releases it after every reply
    of the mail server, which wakes a thread that waits for it. On another core the thread always
    comes too late, at a cost for both. On the same core it would interrupt the loop, only to find
    the lock taken again; so they run as batch work, which the system does not let interrupt
    (docs/adr/0007-less-work-per-email.md).

    Every second the threads are released for a moment, so that the system can move them to a less
    busy core. Does nothing on systems other than Linux, or with a single core.
    """
    allowed = os.sched_getaffinity(0) if sys.platform == "linux" else set()
    if len(allowed) < 2:
        yield
        return
    is_ordinary = os.sched_getscheduler(0) == os.SCHED_OTHER  # else an operator has chosen it
    if is_ordinary:
        _schedule_as(os.SCHED_BATCH)
    keeping = asyncio.create_task(_keep(allowed))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        _put_on(allowed)
        if is_ordinary:
            _schedule_as(os.SCHED_OTHER)


async def _keep(allowed: Collection[int]) -> None:
    while True:
        await asyncio.sleep(_MOVE_SECONDS)
        _put_on({_current_core()})
        await asyncio.sleep(_STAY_SECONDS)
        _put_on(allowed)


def _current_core() -> int:
    stat = (_THREADS / str(threading.get_native_id()) / "stat").read_text()
    return int(stat.rpartition(")")[2].split()[_CORE])


def free_this_thread() -> None:
    """Let the current thread use every core that the process may use, even while its other threads
    are kept on one: for work that releases the GIL, such as signing. It takes a second."""
    _FREE.add(threading.get_native_id())


def _put_on(cores: Collection[int]) -> None:
    is_pinning = len(cores) == 1

    def put(thread: int) -> None:
        if not (is_pinning and thread in _FREE):
            os.sched_setaffinity(thread, cores)

    _for_each_thread(put)


def _schedule_as(policy: int) -> None:
    """Set the scheduling policy of all threads; threads started later inherit it."""
    _for_each_thread(lambda thread: os.sched_setscheduler(thread, policy, os.sched_param(0)))


def _for_each_thread(change: Callable[[int], None]) -> None:
    for thread in os.listdir(_THREADS) if _THREADS.is_dir() else ():
        try:
            change(int(thread))
        except OSError:
            continue  # it has ended in the meantime, or we lack the right
