"""What the kernel lets a worker use, and as which user it runs.

Called in the worker, before any code of the application runs.
"""

from __future__ import annotations

import math
import os
import pwd
import resource
import time

from postroom.host import parents
from postroom.host.wire import WorkerSpec


def apply_limits(spec: WorkerSpec) -> None:
    """Limit this process and all that it starts. `OSError`, `ValueError`."""
    if spec.memory_limit is not None:
        _limit(resource.RLIMIT_DATA, spec.memory_limit)
    if spec.open_files is not None:
        _limit(resource.RLIMIT_NOFILE, spec.open_files)


def _limit(kind: int, value: int) -> None:
    """The hard limit, too, so that the application cannot lift it."""
    _, hard = resource.getrlimit(kind)
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (allowed, allowed))


def allow_cpu(seconds: int | None) -> None:
    """Let this process use so many more seconds of CPU time, for its next message.

    The kernel kills it with SIGXCPU when they are used up.
    """
    if seconds is not None:
        _set_cpu(math.ceil(time.process_time()) + seconds)


def limit_child(seconds: int | None) -> None:
    """The same in a program that is about to run, which begins with no CPU time used."""
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
        parents.die_with(parent)  # the kernel forgets this when the user changes
    os.environ.update(HOME=found.pw_dir, USER=user, LOGNAME=user)
