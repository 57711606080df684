"""Processes on Linux: children end with their parent, orphans are found and killed, workers have
limits and a user."""

from __future__ import annotations

import ctypes
import math
import os
import pwd
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from postroom.errors import PostroomError
from postroom.host.wire import WorkerSpec

FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP)
"""Signals that every process of a command gets from its terminal: Ctrl-C, and when it is closed."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

# Loaded before any fork, so that a child need not search for it.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class CannotBecome(PostroomError):
    """A process cannot run as this user: there is none, or this one has no right to."""


def _prctl(option: int, argument: int | bytes) -> None:
    if _libc is not None:
        _libc.prctl(option, argument, 0, 0, 0)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when `parent` ends; exit if it has ended already.

    Only the main thread of `parent` may fork: the kernel watches the thread.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_process_name(name: str) -> None:
    """Set the name that `ps` and `top` show, up to 15 bytes."""
    _prctl(_PR_SET_NAME, name.encode()[:15])


def end_adopted() -> int:
    """Kill and reap our children in other sessions, which are adopted orphans; return how many."""
    own = os.getsid(0)
    found = [pid for pid, fields in _processes() if int(fields[1]) == os.getpid()]
    count = 0
    for pid in found:
        with suppress(OSError):
            if os.getsid(pid) != own:
                count += 1
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
    return count


def kill_children_of(parent: int) -> int:
    """Kill every child of a process; return how many there were."""
    return _kill(field=1, value=parent)


def kill_session(leader: int) -> int:
    """Kill every process in the session of `leader`; return how many there were."""
    return _kill(field=3, value=leader)


def _kill(field: int, value: int) -> int:
    killed = 0
    for pid, fields in _processes():
        if int(fields[field]) == value and fields[0] != "Z":
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Yield every process with the fields of /proc/PID/stat after its name: state, parent, group,
    session, …"""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name is in brackets and may contain anything, brackets too.
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            yield int(entry.parent.name), fields


def describe_exit(status: int) -> str:
    """Describe an exit status; one below 0 is the number of a signal."""
    if status >= 0:
        return f"exit status {status}"
    if -status == signal.SIGXCPU:
        return "killed by SIGXCPU: it used more CPU time than cpu_limit allows"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def apply_limits(spec: WorkerSpec) -> None:
    """Limit this process and its children. `OSError`, `ValueError`."""
    if spec.memory_limit is not None:
        _limit(resource.RLIMIT_DATA, spec.memory_limit)
    if spec.open_files is not None:
        _limit(resource.RLIMIT_NOFILE, spec.open_files)


def _limit(kind: int, value: int) -> None:
    """Set the soft and the hard limit, so that the application cannot raise it."""
    _, hard = resource.getrlimit(kind)
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (allowed, allowed))


def allow_cpu(seconds: int | None) -> None:
    """Allow this process this many more seconds of CPU time, for its next message.

    After that the kernel kills it with SIGXCPU.
    """
    if seconds is not None:
        _set_cpu(math.ceil(time.process_time()) + seconds)


def limit_child(seconds: int | None) -> None:
    """Limit the CPU time of a program that is about to start."""
    if seconds is not None:
        _set_cpu(seconds)


def _set_cpu(seconds: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = seconds if hard == resource.RLIM_INFINITY else min(seconds, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def become(user: str) -> None:
    """Run as this user from now on. `CannotBecome`."""
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise CannotBecome(f"this machine has no user {user!r}") from None
    if os.geteuid() != found.pw_uid:
        if os.geteuid() != 0:
            raise CannotBecome(f"only a host that runs as root can start processes of {user}")
        parent = os.getppid()
        os.initgroups(user, found.pw_gid)
        os.setgid(found.pw_gid)
        os.setuid(found.pw_uid)
        die_with(parent)  # the kernel resets this when the user changes
    os.environ.update(HOME=found.pw_dir, USER=user, LOGNAME=user)
