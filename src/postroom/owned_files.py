"""Files that a process keeps locked for as long as it lives, however it ends.

Another process on this machine that can lock such a file knows that its owner is dead.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def create_locked(path: Path) -> int:
    """Create a file and lock it.

    Before it is locked, another process may take it for a dead process's file and remove it; then
    it is created again.
    """
    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_current(path, file):
            return file
        os.close(file)


def lock_of_dead_owners(folder: Path, suffix: str) -> Iterator[tuple[Path, int]]:
    """Lock the files of dead processes one by one, to read them and to append to them; the caller
    closes each."""
    for path in sorted(folder.glob(f"*{suffix}")):
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        if _is_current(path, file):
            yield path, file
        else:
            os.close(file)


def _is_current(path: Path, file: int) -> bool:
    """Return whether the path still leads to this open file: it may have been removed, and created
    again by another process."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(file))
    return False
