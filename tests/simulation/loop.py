"""An event loop with virtual time, in which several simulated processes run.

Within a process, callbacks run in the order in which asyncio would run them. Which process runs
next, and how long whatever it waits for takes, is up to one random generator, so a seed decides the
whole schedule. Time passes only when nobody can run, and then jumps to the next timer.

A process that is killed simply never runs again: what it would have cleaned up stays as it was.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_PRIME = 1_000_003
_MASK = 2**64 - 1

_PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("process")


class Process:
    """A simulated process: some tasks that live and die together."""

    def __init__(self, name: str, machine: str) -> None:
        self.name = name
        self.machine = machine
        self.is_alive = True
        self.is_suspended = False
        self.suspended_for = 0.0
        """Seconds that it has spent suspended."""
        self.steps_left = -1
        """After so many more steps `at_last_step` is called; negative: never."""
        self.at_last_step: Callable[[Process], None] | None = None
        self.ready: deque[Handle] = deque()
        self.tasks: list[NumberedTask] = []

    def __repr__(self) -> str:
        return self.name


class Handle:
    """A callback of a process that is due."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "process")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
        process: Process,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.process = process
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class TimerHandle(Handle):
    __slots__ = ("_when",)

    _when: float

    def when(self) -> float:
        return self._when


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address in memory."""

    _numbers = itertools.count()

    def __init__(self, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class SimulationLoop(asyncio.AbstractEventLoop):
    def __init__(self, choices: Random) -> None:
        self._choices = choices
        self._time = 0.0
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._timer_numbers = itertools.count()
        self._runnable: list[Process] = []
        self._processes: list[Process] = []
        self._clockwork = Process("clockwork", "nowhere")
        self.steps = 0
        self.schedule = 0
        """A checksum of who ran when: equal for two runs only if their schedules are."""
        self.errors: list[str] = []
        """What nobody has handled."""
        NumberedTask._numbers = itertools.count()

    # -- processes ---------------------------------------------------------------------------

    def start(self, process: Process, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as the main task of a process."""
        self._processes.append(process)
        context = contextvars.copy_context()
        context.run(_PROCESS.set, process)
        return self.create_task(coroutine, context=context)

    def kill(self, process: Process) -> None:
        """End a process at once, without any clean-up."""
        process.is_alive = False
        process.ready.clear()
        if process in self._runnable:
            self._runnable.remove(process)

    def suspend(self, process: Process, seconds: float) -> None:
        """Let a process stand still, as SIGSTOP does."""
        if process.is_suspended or not process.is_alive:
            return
        process.is_suspended = True
        process.suspended_for += seconds
        if process in self._runnable:
            self._runnable.remove(process)
        self.call_for(self._clockwork, seconds, lambda: self._resume(process))

    def _resume(self, process: Process) -> None:
        process.is_suspended = False
        if process.ready and process.is_alive:
            self._runnable.append(process)

    def dispose(self) -> None:
        """Let go of all tasks. What their clean-up does reaches nobody."""
        for process in self._processes:
            for task in process.tasks:
                if not task.done():
                    _forgive_unseen(task)
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
                elif not process.is_alive:
                    task._log_traceback = False
            process.tasks.clear()
            process.ready.clear()
        self._timers.clear()
        # Tasks of the next run have the same numbers, and asyncio would compare them with these.
        for known in ("_all_tasks", "_scheduled_tasks"):  # until Python 3.11, from 3.12 on
            getattr(asyncio.tasks, known, set[object]()).clear()

    def call_for(self, process: Process, seconds: float, act: Callable[[], object]) -> None:
        """Call something later, in another process."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, process)
        self.call_later(seconds, act, context=context)

    async def delay(self, seconds: float) -> None:
        """Let time pass."""
        waiting = asyncio.Future[None](loop=self)
        self.call_at(self._time + seconds, end, waiting)
        await waiting

    # -- running -----------------------------------------------------------------------------

    def run(self, main: asyncio.Task[T]) -> T:
        """Run everybody until this task is done."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            self._run_until(main.done)
        finally:
            events._set_running_loop(before)
        return main.result()

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        """Run one callback of one process after the other. A run has a thousand of them."""
        runnable, random = self._runnable, self._choices.random
        while not is_over():
            if not runnable:
                self._pass_time()
                continue
            count = len(runnable)
            chosen = 0
            if count > 1:
                chosen = int(random() * count)
                self.schedule = (self.schedule * _PRIME + chosen) & _MASK
            process = runnable[chosen]
            ready = process.ready
            handle = ready.popleft()
            if not ready:
                runnable[chosen] = runnable[-1]
                runnable.pop()
            if handle.is_cancelled:
                continue
            self.steps += 1
            handle.context.run(handle.callback, *handle.args)
            if process.steps_left >= 0:
                process.steps_left -= 1
                if process.steps_left < 0 and process.at_last_step is not None:
                    process.at_last_step(process)

    def _pass_time(self) -> None:
        """Go to the next timer, and make everything ready whose time has come."""
        timers = self._timers
        if not timers:
            raise AssertionError("nobody waits for anything: the simulation would stand still")
        self._time = max(self._time, timers[0][0])
        now = self._time
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            if not handle.is_cancelled:
                self._add(handle)
        self.schedule = (self.schedule * _PRIME + int(now * 1e6)) & _MASK

    def _add(self, handle: Handle) -> None:
        process = handle.process
        if not process.is_alive:
            return
        if not process.ready and not process.is_suspended:
            self._runnable.append(process)
        process.ready.append(handle)

    # -- what asyncio asks for ---------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        context = context or contextvars.copy_context()
        handle = Handle(callback, args, context, context[_PROCESS])
        self._add(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> TimerHandle:
        context = context or contextvars.copy_context()
        handle = TimerHandle(callback, args, context, context[_PROCESS])
        handle._when = when
        heapq.heappush(self._timers, (when, next(self._timer_numbers), handle))
        return handle

    def time(self) -> float:
        return self._time

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> NumberedTask:
        task = NumberedTask(coro, loop=self, name=name or "task", context=context)
        process = _PROCESS.get() if context is None else context[_PROCESS]
        process.tasks.append(task)
        return task

    async def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> T:
        return func(*args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("future") or context.get("task")
        which = task.get_coro() if isinstance(task, NumberedTask) else "a callback"
        self.errors.append(f"{which}: {context.get('message')}: {context.get('exception')!r}")

    get_debug = staticmethod(bool)  # which is False: asyncio asks for each future

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


class _NextStep:
    """What `await asyncio.sleep(0)` does, for half of what it costs."""

    def __await__(self) -> Generator[None]:
        yield


NEXT_STEP = _NextStep()


def end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _forgive_unseen(task: asyncio.Task[Any]) -> None:
    """Let nobody complain about an error for which a task waits that is not going to see it: its
    process is dead, or still suspended."""
    awaited = task._fut_waiter  # type: ignore[attr-defined]
    if awaited is not None and awaited.done():
        awaited._log_traceback = False


def current_process() -> Process:
    return _PROCESS.get()


def _close(coroutine: Any) -> None:
    """End a coroutine that never runs again. It may await in its clean-up, which is cut off."""
    for _ in range(20):
        with suppress(BaseException):
            coroutine.close()
            return
