"""The host's side of the zygote: starts it, requests workers, and learns of their exits."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Protocol, cast

import msgspec

from postroom.domain.queues.app_options import common_variables
from postroom.errors import PostroomError
from postroom.host import linux_processes
from postroom.host.processes.printed_output import WorkerOutput
from postroom.host.wire import (
    LARGEST_PACKET,
    Exited,
    FromWorker,
    FromZygote,
    Garbled,
    Kill,
    Launch,
    Launched,
    NotLaunched,
    ToWorker,
    WorkerSpec,
    frame,
    frames_from_worker,
    packet,
    read_from_zygote,
)

log = logging.getLogger(__name__)

ZYGOTE = "postroom.host.worker.zygote"
KILLED = -int(signal.SIGKILL)
_END_OF_LINE_SECONDS = 1.0  # a child of a dead worker may keep the connection open
_GONE_SECONDS = 2.0  # between the end of the connection and of the process
_STOP_SECONDS = 10.0
_SWEEPS = 250  # a process that forks while it is killed is found by the next sweep
_SWEEP_SECONDS = 0.02


class CannotLaunch(PostroomError):
    """No worker could be started, through no fault of the application."""


class WorkerListener(Protocol):
    """Gets the frames of a worker, and its exit."""

    def connected(self, line: WorkerLine) -> None:
        """The first call. Frames can be sent from now on."""

    def launched(self, pid: int) -> None: ...

    def received(self, value: FromWorker) -> None: ...

    def lost(self) -> None:
        """The connection is closed, but the process has not ended after a moment."""

    def ended(self, status: int) -> None:
        """The last call. `status` as in `Exited`."""


class WorkerLauncher(Protocol):
    """Starts and kills workers."""

    async def launch(self, spec: WorkerSpec, listener: WorkerListener) -> None: ...

    def kill(self, pid: int) -> None: ...


class WorkerLine(asyncio.Protocol):
    """The host's end of the connection to one worker."""

    def __init__(self, listener: WorkerListener, output: WorkerOutput | None = None) -> None:
        self._listener = listener
        self._output = output
        self._frames = frames_from_worker()
        self._closed = asyncio.Event()
        self._pid = 0
        self._is_ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._listener.connected(self)

    def data_received(self, data: bytes) -> None:
        try:
            for value in self._frames.feed(data):
                self._listener.received(value)
        except Garbled as exc:
            log.error("process %d: %s", self._pid, exc)
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        asyncio.get_running_loop().call_later(_GONE_SECONDS, self._check_end)

    def _check_end(self) -> None:
        if self._pid and not self._is_ending:
            self._listener.lost()

    def launched(self, pid: int) -> None:
        self._pid = pid
        if self._output is not None:
            self._output.launched(pid)
        self._listener.launched(pid)

    def next_message(self) -> None:
        """Start a new limit for printed output: a message was answered."""
        if self._output is not None:
            self._output.next_message()

    def send(self, value: ToWorker) -> None:
        if not self._transport.is_closing():
            self._transport.write(frame(value))

    def close(self) -> None:
        self._transport.abort()

    async def end(self, status: int) -> None:
        """Read the last frames of a process that has ended, then report its exit."""
        self._is_ending = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_OF_LINE_SECONDS):
                await self._closed.wait()
        self.close()
        if self._output is not None:
            self._output.close()
        self._listener.ended(status)


class Launcher:
    """Starts workers. Starts the zygote with the first worker, and again if it dies."""

    def __init__(self, environment: Mapping[str, str], preload: Sequence[str] = ()) -> None:
        """`environment` is for Postroom's own applications; others get its common variables."""
        self._environment = dict(environment)
        self._preload = tuple(preload)
        self._zygote: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._numbers = 0
        self._asked: dict[int, tuple[asyncio.Future[None], WorkerLine]] = {}
        self._lines: dict[int, WorkerLine] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the zygote, so that the first worker need not wait for it. `OSError`.

        Call it in the main thread: the kernel ties a child to the thread that forked it.
        """
        if self._zygote is not None:
            return
        linux_processes.adopt_orphans()
        with ExitStack() as failing:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            failing.enter_context(ours)
            with theirs:
                self._zygote = self._started(theirs.fileno())
            failing.pop_all()
        ours.setblocking(False)
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._read)

    def _started(self, line: int) -> subprocess.Popen[bytes]:
        # The zygote inherits the blocked signals, so that Ctrl-C cannot interrupt it before it
        # ignores them itself.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, linux_processes.FROM_TERMINAL)
        try:
            return subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-m", ZYGOTE, str(line), *self._preload],
                env=common_variables(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=[line],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    async def launch(self, spec: WorkerSpec, listener: WorkerListener) -> None:
        """Start a worker. `CannotLaunch`; otherwise the listener learns of its exit.

        Postroom's own applications write logs themselves; the output of others is logged here.
        """
        try:
            self.start()
            if spec.serve:
                spec = msgspec.structs.replace(spec, environment=self._environment)
            output = None if spec.serve else WorkerOutput(spec.path)
            try:
                await self._launch(spec, listener, output)
            except BaseException:
                if output is not None:
                    output.close()
                raise
        except OSError as exc:
            raise CannotLaunch(f"no process could be started: {exc}") from exc

    async def _launch(
        self, spec: WorkerSpec, listener: WorkerListener, output: WorkerOutput | None
    ) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                _, line = await loop.create_connection(
                    lambda: WorkerLine(listener, output), sock=ours
                )
            except BaseException:
                ours.close()
                raise
            self._numbers += 1
            number, asked = self._numbers, loop.create_future()
            self._asked[number] = (asked, line)
            descriptors = [theirs.fileno(), *([] if output is None else [output.end])]
            try:
                self._ask(Launch(number, spec, len(descriptors)), descriptors)
                await asked
            except BaseException:
                line.close()  # a worker that was started all the same ends with its connection
                raise
            finally:
                del self._asked[number]

    def _ask(self, launch: Launch, descriptors: list[int]) -> None:
        if self._socket is None:
            raise CannotLaunch("the zygote has just died")
        try:
            socket.send_fds(self._socket, [packet(launch)], descriptors)
        except OSError as exc:
            raise CannotLaunch(f"the zygote does not respond: {exc}") from exc

    def kill(self, pid: int) -> None:
        """Let the zygote kill a worker: it knows whether the PID still belongs to it."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(packet(Kill(pid)))

    async def stop(self) -> None:
        """End the zygote and all workers."""
        zygote = self._zygote
        if zygote is None:
            return
        self._lose_zygote()
        try:
            await asyncio.to_thread(zygote.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            zygote.kill()
            zygote.wait()
        if self._ending:
            await asyncio.wait(list(self._ending))

    def _read(self) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(LARGEST_PACKET)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                log.error("the zygote has died with all its workers")
                zygote = self._zygote
                self._lose_zygote()
                if zygote is not None:
                    zygote.kill()
                    zygote.wait()
                self._keep(asyncio.create_task(_end_orphans()))
                return
            self._received(read_from_zygote(data))

    def _received(self, value: FromZygote) -> None:
        match value:
            case Launched(number, pid):
                asked, line = self._asked[number]
                line.launched(pid)
                self._lines[pid] = line
                if not asked.done():
                    asked.set_result(None)
            case NotLaunched(number, error):
                asked, _ = self._asked[number]
                if not asked.done():
                    asked.set_exception(CannotLaunch(f"no process could be started: {error}"))
            case Exited(pid, status):
                self._end(pid, status)

    def _end(self, pid: int, status: int) -> None:
        line = self._lines.pop(pid, None)
        if line is not None:
            self._keep(asyncio.create_task(line.end(status)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _lose_zygote(self) -> None:
        """Forget the zygote and report its workers as killed, which the kernel or it does."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        self._socket = self._zygote = None
        for asked, _ in self._asked.values():
            if not asked.done():
                asked.set_exception(CannotLaunch("the zygote has died"))
        for pid in list(self._lines):
            self._end(pid, KILLED)


async def _end_orphans() -> None:
    """Kill what the workers of a killed zygote had started: we have adopted it."""
    for _ in range(_SWEEPS):
        if not linux_processes.end_adopted():
            return
        await asyncio.sleep(_SWEEP_SECONDS)
