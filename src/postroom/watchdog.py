"""A part that has work but makes no progress is reported and restarted.

Errors are handled where they happen. The watchdog is for unexpected failures: a call that never
returns, a task that waits for something that never happens, a blocked event loop. Twice a second it
looks at what a part is doing, and at a mark that changes whenever that makes progress.

1. A part without progress for too long is cancelled, rebuilt and started again.
2. If it does not end, or if the event loop is blocked, the process is replaced. Its unfinished work
   is then settled as after a crash.

Time is counted in looks, not by a clock: a suspended process does not look either.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from postroom.folders import make_writable

log = logging.getLogger(__name__)

STALLED = 75
"""The exit status of a process that ends because of a stall (EX_TEMPFAIL)."""

_LOOK_SECONDS = 0.5
_END_SECONDS = 10.0
_CANCEL_AGAIN_SECONDS = 1.0


class Doing(msgspec.Struct, frozen=True):
    """Something that a part is doing.

    `mark` changes whenever it makes progress. The mark may stay the same for `patience` times the
    usual limit, plus `rest` seconds of waiting in between.
    """

    mark: Hashable
    patience: float = 1.0
    rest: float = 0.0


class WatchedPart(Protocol):
    async def run(self, stopping: asyncio.Event) -> None: ...

    def doing(self) -> Mapping[str, Doing]:
        """Return what must make progress now; nothing while the part waits for a known reason."""
        ...


class Stall(msgspec.Struct):
    """A part that made no progress, recorded for all processes on this machine."""

    part: str
    what: str
    at: float
    is_reported: bool = msgspec.field(default=False, name="is_told")

    def __str__(self) -> str:
        return f"the {self.part} made no progress ({self.what}) and was restarted"


class Stalls:
    """The stalls on this machine: one file per part, in a shared folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, stall: Stall) -> None:
        """Record a stall. Never raises: a full disk may be the cause."""
        try:
            make_writable(self._folder)
            written = self._path(stall.part).with_suffix(f".{os.getpid()}")
            written.write_bytes(msgspec.json.encode(stall))
            written.replace(self._path(stall.part))
        except Exception:
            log.exception("a stall could not be recorded: %s", stall)

    def find(self) -> list[Stall]:
        found = []
        for path in sorted(self._folder.glob("*.json")):
            with suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Stall))
        return found

    def forget(self, part: str) -> None:
        with suppress(OSError):
            self._path(part).unlink(missing_ok=True)

    def _path(self, part: str) -> Path:
        return self._folder / f"{part}.json"


class _Looks:
    """Counts for each activity of a part how many looks ago it made progress."""

    def __init__(self, limit: float) -> None:
        self._most = max(1, round(limit / _LOOK_SECONDS))
        self._seen: dict[str, tuple[Hashable, int]] = {}

    def look(self, doing: Mapping[str, Doing]) -> str:
        """Return the first stalled activity, or an empty text."""
        seen: dict[str, tuple[Hashable, int]] = {}
        stalled = ""
        for name, each in doing.items():
            mark, count = self._seen.get(name, (None, 0))
            count = count + 1 if mark == each.mark else 0
            seen[name] = each.mark, count
            if count >= self._most * each.patience + each.rest / _LOOK_SECONDS:
                stalled = stalled or name
        self._seen = seen
        return stalled


class Watchdog:
    """Watches over one part of this process."""

    def __init__(
        self,
        part: str,
        limit: float,
        stalls: Stalls,
        report: Callable[[str], None],
        replace_process: Callable[[], None],
    ) -> None:
        """`limit`: seconds without progress. `report` makes a stall known, such as by an event.
        `replace_process` does not return."""
        self._part = part
        self._limit = limit
        self._stalls = stalls
        self._report = report
        self._replace_process = replace_process
        self._ticks = 0

    async def run(self, make: Callable[[], WatchedPart], stopping: asyncio.Event) -> None:
        """Run a part until `stopping`; rebuild and run it again whenever it stalls."""
        self._report_earlier_stall()
        done = threading.Event()
        threading.Thread(
            target=self._watch_loop, args=(done,), name="watchdog", daemon=True
        ).start()
        try:
            while await self._run_once(make(), stopping):
                log.warning("restarting the %s", self._part)
        finally:
            done.set()

    async def _run_once(self, part: WatchedPart, stopping: asyncio.Event) -> bool:
        """Run the part; return whether it has to be restarted."""
        running = asyncio.create_task(part.run(stopping), name=self._part)
        looks = _Looks(self._limit)
        calm = 0
        try:
            while not running.done():
                await asyncio.wait([running], timeout=_LOOK_SECONDS)
                self._ticks += 1
                if stalled := looks.look(part.doing()):
                    await self._replace(running, stalled, stopping)
                    return not stopping.is_set()
                calm += 1
                if calm * _LOOK_SECONDS >= self._limit:
                    self._stalls.forget(self._part)
                    calm = 0
            running.result()
            return False
        finally:
            running.cancel()
            await asyncio.wait([running], timeout=_END_SECONDS)

    async def _replace(
        self, running: asyncio.Task[None], stalled: str, stopping: asyncio.Event
    ) -> None:
        log.error("the %s made no progress for %.0f s: %s", self._part, self._limit, stalled)
        running.print_stack()
        self._note(stalled)
        running.cancel()
        await asyncio.wait([running], timeout=_END_SECONDS)
        if not running.done():
            log.error("the %s does not end: replacing the process", self._part)
            self._end_process(is_stopping=stopping.is_set())
        self._report_earlier_stall()

    def _end_process(self, *, is_stopping: bool) -> None:
        if is_stopping:
            os._exit(STALLED)
        self._replace_process()

    def _note(self, what: str) -> None:
        self._stalls.note(Stall(self._part, what, time.time()))

    def _report_earlier_stall(self) -> None:
        for stall in self._stalls.find():
            if stall.part == self._part and not stall.is_reported:
                self._report(str(stall))
                stall.is_reported = True
                self._stalls.note(stall)

    def _watch_loop(self, done: threading.Event) -> None:
        """Check from a thread that the event loop is not blocked."""
        looks = _Looks(self._limit)
        while not done.wait(_LOOK_SECONDS):
            if looks.look({"event loop": Doing(self._ticks)}):
                log.error("the event loop is blocked: replacing the process")
                faulthandler.dump_traceback()
                self._note("the event loop was blocked")
                self._replace_process()


def start_again() -> None:
    """Replace this process with a new one that runs the same command."""
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def end_at_once() -> None:
    """End this process; its parent starts another."""
    sys.stderr.flush()
    os._exit(STALLED)


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and return when all of them have ended, with any result.

    A cancellation can get lost: an interrupted library may raise its own error instead, which the
    task then handles. So it is repeated every second.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN_SECONDS)
        for task in ended:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.debug("%r ended with %r", task, error)
