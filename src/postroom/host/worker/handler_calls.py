"""Call an application's handler with a message, and turn what it does into an answer.

Every call gets exactly one answer, whatever the handler returns or raises.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, cast

from postroom.host import Delivery, Poison, RetryLater
from postroom.host.wire import Accepted, Deliver, Failed, WorkerSpec

LONGEST_TRACEBACK = 8_000
"""The end of a traceback says the most; it has to fit into one row with the message's other
facts."""

LONGEST_ERROR = 1_000

GENERATOR = "is a generator function, which runs nothing when called: remove `yield`"

Answer = Callable[[Accepted | Failed], None]


class Handler:
    """Runs one callable: a plain function in a thread, an `async` one as a task."""

    def __init__(self, call: Callable[..., Any], spec: WorkerSpec) -> None:
        self._call = call
        self._arguments = (spec.command, spec.cpu_limit) if spec.command else ()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        if not _is_async(call):
            self._threads = ThreadPoolExecutor(spec.concurrency, "handler")

    def start(self, delivered: Deliver, answer: Answer) -> None:
        """Begin with a message; `answer` is called once, in the event loop."""
        message = Delivery(
            delivered.body,
            delivered.id,
            delivered.queue,
            delivered.attempt,
            delivered.enqueued_at,
            delivered.properties,
        )
        if self._threads is None:
            self._start_task(delivered.number, lambda: self._called(message), answer)
        else:
            self._threads.submit(self._in_thread, delivered.number, message, answer)

    def _called(self, message: Delivery) -> Any:
        return self._call(message, *self._arguments)

    def _in_thread(self, number: int, message: Delivery, answer: Answer) -> None:
        outcome: Accepted | Failed
        try:
            result = self._called(message)
            if inspect.isawaitable(result):
                self._loop.call_soon_threadsafe(self._start_task, number, lambda: result, answer)
                return
            _refuse_generator(result)
        except BaseException as exc:  # what a handler raises is its answer, `sys.exit` too
            outcome = failure_of(number, exc)
        else:
            outcome = Accepted(number)
        self._loop.call_soon_threadsafe(answer, outcome)

    def _start_task(
        self, number: int, call: Callable[[], Awaitable[object]], answer: Answer
    ) -> None:
        task = self._loop.create_task(self._as_task(number, call, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _as_task(
        self, number: int, call: Callable[[], Awaitable[object]], answer: Answer
    ) -> None:
        outcome: Accepted | Failed
        try:
            _refuse_generator(await call())
        except BaseException as exc:
            outcome = failure_of(number, exc)
        else:
            outcome = Accepted(number)
        answer(outcome)


def load(name: str) -> Callable[..., Any]:
    """Import `module:callable`, with dots for attributes. `TypeError`."""
    module, _, attributes = name.partition(":")
    found: Any = import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    if is_generator(found):
        raise TypeError(f"{name} {GENERATOR}")
    return cast("Callable[..., Any]", found)


def is_generator(call: object) -> bool:
    """Return whether calling it creates a generator, plain or async, and runs none of its code."""
    return any(
        inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each)
        for each in (call, getattr(call, "__call__", None))  # noqa: B004
    )


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - an object with an `async def __call__`
    )


def _refuse_generator(result: object) -> None:
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError("the handler returned a generator, which has not run: remove `yield`")


def failure_of(number: int, exc: BaseException) -> Failed:
    """Describe what a handler raised. Never raises itself."""
    retry_in = _seconds(exc) if isinstance(exc, RetryLater) else None
    return Failed(number, line_of(exc), traceback_of(exc), retry_in, poison=isinstance(exc, Poison))


def _seconds(exc: RetryLater) -> float | None:
    """Return the delay that the handler requested; None if it is not a number."""
    try:
        seconds = float(exc.seconds)
    except (TypeError, ValueError, AttributeError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def line_of(exc: BaseException) -> str:
    """Return the error in one line."""
    text = "".join(traceback.format_exception_only(exc)).strip()
    return _encodable(" ".join(text.split())[:LONGEST_ERROR])


def traceback_of(exc: BaseException) -> str:
    """Return the end of the traceback, without its first frame, which is ours."""
    below = exc.__traceback__.tb_next if exc.__traceback__ is not None else None
    return _encodable(
        "".join(traceback.format_exception(type(exc), exc, below))[-LONGEST_TRACEBACK:]
    )


def _encodable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, with escapes such as `\\ud83d`."""
    return text.encode("utf-8", "backslashreplace").decode()
