"""A worker: the process in which an application's handler runs.

It never reads a queue. The host delivers messages through a socket, and the worker answers each
with its result. It answers a message before it begins the next, so that the host knows which ones
had begun if the process dies.

It ends when the host sends `Drain`, and on SIGTERM (the same, and it informs the host). It ends
immediately when the host has ended, or when it cannot answer: the host notices the end of a
process, but would wait for a missing answer forever.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NoReturn, cast

from postroom.host import linux_processes
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
from postroom.host.worker.handler_calls import Handler, line_of, load, traceback_of
from postroom.tuning import collect_less, quick_loop

COMMANDS = "postroom.host.worker.commands:run"
"""The handler of applications that are programs."""

NO_ANSWER = 70
"""Exit status of a worker that could not answer the host."""

Serve = Callable[[asyncio.Event, Callable[[bool], None]], Awaitable[None]]


def run(spec: WorkerSpec, line: socket.socket, output: int = -1) -> None:
    """Run as this worker until the end. Its output goes to `output`, if that is set."""
    linux_processes.set_process_name(f"postroom {spec.path}")
    try:
        _prepare(spec, output)
    except Exception as exc:
        line.sendall(frame(Broken(f"the process cannot be set up: {line_of(exc)}", "")))
        os._exit(1)
    if spec.serve:
        collect_less()
    try:
        with asyncio.Runner(loop_factory=quick_loop if spec.serve else None) as runner:
            runner.run(_serve(spec, line) if spec.serve else _handle(spec, line))
    except BaseException as exc:
        # Threads of a running handler must not keep the process alive.
        _die(exc)


def _die(exc: BaseException) -> NoReturn:
    """Exit immediately, even if threads are running."""
    traceback.print_exception(exc)
    sys.stderr.flush()
    os._exit(NO_ANSWER)


def _prepare(spec: WorkerSpec, output: int) -> None:
    if output >= 0:
        for stream_number in (1, 2):
            os.dup2(output, stream_number)
        os.close(output)
    if spec.serve:
        os.environ.clear()
    if spec.user:
        linux_processes.become(spec.user)
    os.environ.update(spec.environment)
    time.tzset()
    linux_processes.apply_limits(spec)
    if spec.folder:
        os.chdir(spec.folder)
        sys.path.insert(0, spec.folder)
    # Line by line, so that output is not lost when the process is killed; no text can fail.
    sys.stdout, sys.stderr = (
        open(number, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (1, 2)
    )
    logging.basicConfig(
        level=logging.INFO,
        format="%(levelname)s %(name)s: %(message)s",  # the host adds time and application
        force=True,
    )


# --------------------------------------------------------------------------------------------
# Applications whose messages the host delivers


async def _handle(spec: WorkerSpec, line: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    _, worker = await loop.create_connection(lambda: _Worker(spec, ended), sock=line)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, worker.leave)
    worker.begin()
    await ended


class _Worker(asyncio.Protocol):
    """The worker's end of the connection."""

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
        os._exit(1)  # the host has ended: another one gets our messages

    def data_received(self, data: bytes) -> None:
        for value in self._frames.feed(data):
            match value:
                case Deliver():
                    self._waiting.append(value)
                case Recall():
                    self._give_back()
                case Drain():
                    self._draining = True
        self._continue()

    def leave(self) -> None:
        """Handle SIGTERM, which does not come from the host: the host sends `Drain`."""
        self._send(Leaving())
        self._draining = True
        self._continue()

    def _send(self, value: FromWorker) -> None:
        try:
            self._transport.write(frame(value))
        except Exception as exc:
            _die(exc)

    # -- messages ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Import the handler, and report that or why not."""
        name = self._spec.handler or COMMANDS
        try:
            self._handler = Handler(load(name), self._spec)
        except BaseException as exc:  # a module may even call `sys.exit`
            self._send(Broken(f"{name} cannot be imported: {line_of(exc)}", traceback_of(exc)))
            self._finish()
            return
        self._send(Ready())
        self._continue()

    def _give_back(self) -> None:
        while self._waiting:
            self._send(Returned(self._waiting.popleft().number))

    def _continue(self) -> None:
        if self._handler is None:
            return
        if self._draining:
            self._give_back()
            if not self._running:
                self._finish()
        while self._waiting and self._running < self._spec.concurrency:
            self._running += 1
            message = self._waiting.popleft()
            linux_processes.allow_cpu(self._spec.cpu_limit)
            self._handler.start(message, self._answer)

    def _answer(self, value: Accepted | Failed) -> None:
        self._running -= 1
        self._send(value)
        self._continue()

    def _finish(self) -> None:
        """Close the connection after everything is sent, and end."""
        self._handler = None
        self.connection_lost = self._closed  # type: ignore[method-assign]
        self._transport.close()

    def _closed(self, exc: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


# --------------------------------------------------------------------------------------------
# Applications that receive messages themselves


async def _serve(spec: WorkerSpec, line: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    transport, _ = await loop.create_connection(lambda: _ServeLine(stopping), sock=line)

    def send(value: FromWorker) -> None:
        if not transport.is_closing():
            transport.write(frame(value))

    def leave() -> None:
        send(Leaving())
        stopping.set()

    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, leave)
    try:
        serve = cast(Serve, load(spec.serve))
    except Exception as exc:
        send(Broken(f"{spec.serve} cannot be imported: {line_of(exc)}", traceback_of(exc)))
        transport.close()
        return
    send(Ready())
    await serve(stopping, lambda busy: send(Busy(busy)))
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
