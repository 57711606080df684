"""Process trees on Linux: children end with their parent, orphans are found and killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP)
"""Signals that every process of a command gets from its terminal: Ctrl-C, and when it is closed."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

# Loaded before any fork, so that a child need not search for it.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


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
