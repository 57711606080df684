"""The zygote: a small process that has everything imported and forks the workers.

    python -m postroom.host.worker.zygote SOCKET [MODULE …]

A new interpreter takes hundreds of milliseconds to start; a fork of this one takes a few. It has
one thread and no event loop, so that a fork copies nothing half-done. It reports the exits of its
children. When its host ends in any way, their socket closes, and the zygote kills all its
descendants, including those that a handler or a command started, and ends. When the zygote itself
is killed, the kernel kills the workers, and the host kills what they had started (`launcher.py`).

Its environment is that of hosted programs: a fork shows it in `/proc/PID/environ`, so it must not
contain Postroom's secrets.
"""

from __future__ import annotations

import errno
import gc
import os
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from postroom.host import linux_processes
from postroom.host.wire import (
    LARGEST_PACKET,
    Exited,
    FromZygote,
    Launch,
    Launched,
    NotLaunched,
    WorkerSpec,
    packet,
    read_to_zygote,
)
from postroom.host.worker import worker

_DESCRIPTORS = 2
_SWEEPS = 100  # a process that forks while it is killed is found by the next sweep


class WorkerJob(NamedTuple):
    """What a forked child does. `output` is -1 if it writes to our own standard error."""

    spec: WorkerSpec
    line: int
    output: int = -1


class _Zygote:
    def __init__(self, host: socket.socket) -> None:
        self._host = host
        self._workers: set[int] = set()
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def run(self) -> WorkerJob | None:
        """Run until the host ends and return None; in a forked child, return its job."""
        self._listen_for_children()
        self._selector.register(self._host, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    with suppress(BlockingIOError):
                        self._woken.recv(4096)
                    self._reap()
                    continue
                data, descriptors = self._receive()
                if not data:
                    self._end_everything()
                    return None
                job = self._obey(data, descriptors)
                if job is not None:
                    return job

    def _listen_for_children(self) -> None:
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The host decides when to stop: what its terminal sends reaches us, too.
        for number in (*linux_processes.FROM_TERMINAL, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, linux_processes.FROM_TERMINAL)  # see launcher.py

    def _receive(self) -> tuple[bytes, list[int]]:
        try:
            data, ancillary, _, _ = self._host.recvmsg(
                LARGEST_PACKET, socket.CMSG_SPACE(4 * _DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return b"", []
        descriptors = [
            int.from_bytes(content[start : start + 4], sys.byteorder)
            for level, kind, content in ancillary
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
            for start in range(0, len(content) - 3, 4)
        ]
        return data, descriptors

    def _obey(self, data: bytes, descriptors: list[int]) -> WorkerJob | None:
        asked = read_to_zygote(data)
        if isinstance(asked, Launch):
            return self._fork(asked, descriptors)
        if asked.pid in self._workers:  # not reaped yet, so the PID is still its own
            os.kill(asked.pid, signal.SIGKILL)
        return None

    def _fork(self, launch: Launch, descriptors: list[int]) -> WorkerJob | None:
        parent = os.getpid()
        try:
            if len(descriptors) != launch.descriptors:  # the kernel drops what does not fit
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pid = os.fork()
        except OSError as exc:
            _close(descriptors)
            self._send(NotLaunched(launch.number, str(exc)))
            return None
        if pid:
            _close(descriptors)
            self._workers.add(pid)
            self._send(Launched(launch.number, pid))
            return None
        linux_processes.die_with(parent)
        os.setsid()  # so that its children can be found, and Ctrl-C does not reach it
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, *linux_processes.FROM_TERMINAL):
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        for inherited in (self._host, self._wake, self._woken):
            inherited.close()
        return WorkerJob(launch.spec, *descriptors)

    def _reap(self) -> None:
        while (pid := _ended_child()) is not None:
            if pid in self._workers:  # the others are orphans that we adopted
                # Before it is reaped: until then its PID is not reused.
                linux_processes.kill_session(pid)
                self._workers.discard(pid)
                _, status = os.waitpid(pid, 0)
                self._send(Exited(pid, os.waitstatus_to_exitcode(status)))
            else:
                os.waitpid(pid, 0)

    def _send(self, value: FromZygote) -> None:
        with suppress(OSError):  # the end of the host is noticed when we read
            self._host.send(packet(value))

    def _end_everything(self) -> None:
        for worker_pid in self._workers:
            os.kill(worker_pid, signal.SIGKILL)
            linux_processes.kill_session(worker_pid)
        for _ in range(_SWEEPS):
            while (pid := _ended_child()) is not None:
                os.waitpid(pid, 0)
            if not linux_processes.kill_children_of(os.getpid()):
                return


def _close(descriptors: list[int]) -> None:
    for each in descriptors:
        os.close(each)


def _ended_child() -> int | None:
    """Return a child that has ended and is not reaped yet."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


def main(arguments: Sequence[str]) -> None:
    """Fork workers until the host ends; a child continues here as a worker."""
    host = socket.socket(fileno=int(arguments[0]))
    linux_processes.adopt_orphans()
    linux_processes.set_process_name("postroom-zygote")
    # Import `COMMANDS` now: a worker with another user may not be able to read it.
    for module in (worker.COMMANDS.partition(":")[0], *arguments[1:]):
        import_module(module)
    gc.collect()
    gc.freeze()  # garbage collection in a worker does not write to shared memory
    job = _Zygote(host).run()
    if job is not None:
        worker.run(job.spec, socket.socket(fileno=job.line), job.output)


if __name__ == "__main__":
    main(sys.argv[1:])
