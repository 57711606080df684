"""A worker: the process in which an application's handler runs.

It never looks at a queue. The host hands messages over through a socket, and the worker answers
what became of each. A message is answered before the next one begins, so the host knows which ones
had begun should the process die.

It ends when the host says `drain`, on SIGTERM (the same, and the host is told), and at once when
the host is gone.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, cast

from postroom.host import parents
from postroom.host.handling import Message, Poison, RetryLater
from postroom.host.wire import (
    Accepted,
    Broken,
    Busy,
    Deliver,
    Drain,
    Failed,
    FromWorker,
    Leaving,
    Ready,
    Recall,
    Returned,
    WorkerSpec,
    frame,
    frames_to_worker,
)
from postroom.tuning import collect_less, quick_loop

COMMANDS = "postroom.host.commands:run"
"""The handler of applications that are programs."""

LONGEST_TRACEBACK = 8_000
"""The end of a traceback says most; with a message's other facts it has to fit into one row."""

LONGEST_ERROR = 1_000

Serve = Callable[[asyncio.Event, Callable[[bool], None]], Awaitable[None]]


def run(spec: WorkerSpec, line: socket.socket) -> None:
    """Be this worker until told to end."""
    parents.call_yourself(f"postroom {spec.path}")
    _prepare(spec)
    if spec.serve:
        collect_less()
    with asyncio.Runner(loop_factory=quick_loop if spec.serve else None) as runner:
        runner.run(_serve(spec, line) if spec.serve else _handle(spec, line))


def _prepare(spec: WorkerSpec) -> None:
    if spec.folder:
        os.chdir(spec.folder)
        sys.path.insert(0, spec.folder)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)  # what was printed is seen, whatever kills us
    logging.basicConfig(
        level=logging.INFO,
        format=f"%(asctime)s %(levelname)-7s {spec.path} %(name)s: %(message)s",
        force=True,
    )


# --------------------------------------------------------------------------------------------
# Applications whose messages the host hands over


async def _handle(spec: WorkerSpec, line: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    _, worker = await loop.create_connection(lambda: _Worker(spec, ended), sock=line)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, worker.leave)
    worker.begin()
    await ended


class _Worker(asyncio.Protocol):
    """The worker's end of the line."""

    def __init__(self, spec: WorkerSpec, ended: asyncio.Future[None]) -> None:
        self._spec = spec
        self._ended = ended
        self._frames = frames_to_worker()
        self._waiting: deque[Deliver] = deque()
        self._running = 0
        self._draining = False
        self._handler: Handler | None = None

    # -- the line ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        os._exit(1)  # the host is gone: another one has our messages, or will soon

    def data_received(self, data: bytes) -> None:
        for value in self._frames.feed(data):
            match value:
                case Deliver():
                    self._waiting.append(value)
                case Recall():
                    self._give_back()
                case Drain():
                    self._draining = True
        self._go_on()

    def leave(self) -> None:
        """SIGTERM: from somebody else than the host, which says `drain`."""
        self._say(Leaving())
        self._draining = True
        self._go_on()

    def _say(self, value: FromWorker) -> None:
        self._transport.write(frame(value))

    # -- messages ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Import the handler and say so."""
        name = self._spec.handler or COMMANDS
        try:
            self._handler = Handler(_load(name), self._spec)
        except BaseException as exc:  # a module may do anything, `sys.exit` too
            self._say(Broken(f"{name} cannot be imported: {_line_of(exc)}", _traceback_of(exc)))
            self._finish()
            return
        self._say(Ready())
        self._go_on()

    def _give_back(self) -> None:
        while self._waiting:
            self._say(Returned(self._waiting.popleft().number))

    def _go_on(self) -> None:
        if self._handler is None:
            return
        if self._draining:
            self._give_back()
            if not self._running:
                self._finish()
        while self._waiting and self._running < self._spec.concurrency:
            self._running += 1
            message = self._waiting.popleft()
            self._handler.start(message, self._answer)

    def _answer(self, value: Accepted | Failed) -> None:
        self._running -= 1
        self._say(value)
        self._go_on()

    def _finish(self) -> None:
        """All is said once the line is closed: it sends what is left first."""
        self._handler = None
        self.connection_lost = self._closed  # type: ignore[method-assign]
        self._transport.close()

    def _closed(self, exc: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


Answer = Callable[[Accepted | Failed], None]


class Handler:
    """Runs one callable: a plain function in a thread, an `async` one as a task."""

    def __init__(self, call: Callable[..., Any], spec: WorkerSpec) -> None:
        self._call = call
        self._arguments = (spec.command,) if spec.command else ()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        if not _is_async(call):
            self._threads = ThreadPoolExecutor(spec.concurrency, "handler")

    def start(self, delivered: Deliver, answer: Answer) -> None:
        message = Message(
            delivered.body,
            delivered.id,
            delivered.queue,
            delivered.attempt,
            delivered.enqueued_at,
            delivered.properties,
        )
        if self._threads is None:
            self._start_task(delivered.number, self._call(message, *self._arguments), answer)
        else:
            self._threads.submit(self._in_thread, delivered.number, message, answer)

    def _in_thread(self, number: int, message: Message, answer: Answer) -> None:
        said: Accepted | Failed
        try:
            result = self._call(message, *self._arguments)
        except BaseException as exc:  # what a handler raises is its answer, `sys.exit` too
            said = _failure(number, exc)
        else:
            if inspect.isawaitable(result):
                self._loop.call_soon_threadsafe(self._start_task, number, result, answer)
                return
            said = Accepted(number)
        self._loop.call_soon_threadsafe(answer, said)

    def _start_task(self, number: int, work: Awaitable[object], answer: Answer) -> None:
        task = self._loop.create_task(self._as_task(number, work, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _as_task(self, number: int, work: Awaitable[object], answer: Answer) -> None:
        said: Accepted | Failed
        try:
            await work
        except BaseException as exc:
            said = _failure(number, exc)
        else:
            said = Accepted(number)
        answer(said)


def _load(name: str) -> Callable[..., Any]:
    """`module:callable`, with dots for what is inside the module's things."""
    module, _, attributes = name.partition(":")
    found: Any = import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    return cast("Callable[..., Any]", found)


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - an object with an `async def __call__`
    )


def _failure(number: int, exc: BaseException) -> Failed:
    retry_in = max(0.0, exc.seconds) if isinstance(exc, RetryLater) else None
    return Failed(
        number, _line_of(exc), _traceback_of(exc), retry_in, poison=isinstance(exc, Poison)
    )


def _line_of(exc: BaseException) -> str:
    said = "".join(traceback.format_exception_only(exc)).strip()
    return " ".join(said.split())[:LONGEST_ERROR]


def _traceback_of(exc: BaseException) -> str:
    """Without our own frame, which comes first."""
    below = exc.__traceback__.tb_next if exc.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(exc), exc, below))[-LONGEST_TRACEBACK:]


# --------------------------------------------------------------------------------------------
# Applications that receive by themselves


async def _serve(spec: WorkerSpec, line: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    transport, _ = await loop.create_connection(lambda: _ServeLine(stopping), sock=line)

    def say(value: FromWorker) -> None:
        if not transport.is_closing():
            transport.write(frame(value))

    def leave() -> None:
        say(Leaving())
        stopping.set()

    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, leave)
    try:
        serve = cast(Serve, _load(spec.serve))
    except Exception as exc:
        say(Broken(f"{spec.serve} cannot be imported: {_line_of(exc)}", _traceback_of(exc)))
        transport.close()
        return
    say(Ready())
    await serve(stopping, lambda busy: say(Busy(busy)))
    transport.close()


class _ServeLine(asyncio.Protocol):
    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._frames = frames_to_worker()

    def data_received(self, data: bytes) -> None:
        if any(isinstance(value, Drain) for value in self._frames.feed(data)):
            self._stopping.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._stopping.is_set():
            os._exit(1)
