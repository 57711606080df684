"""The resource limits and the user of a worker.

Applied in the worker before any code of the application runs.
"""

from __future__ import annotations

import math
import os
import pwd
import resource
import time

from postroom.host import process_tree
from postroom.host.wire import WorkerSpec


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
    """Run as this user from now on. `LookupError` if there is none, `PermissionError`."""
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise LookupError(f"this machine has no user {user!r}") from None
    if os.geteuid() != found.pw_uid:
        if os.geteuid() != 0:
            raise PermissionError(f"only a host that runs as root can start processes of {user}")
        parent = os.getppid()
        os.initgroups(user, found.pw_gid)
        os.setgid(found.pw_gid)
        os.setuid(found.pw_uid)
        process_tree.die_with(parent)  # the kernel resets this when the user changes
    os.environ.update(HOME=found.pw_dir, USER=user, LOGNAME=user)
