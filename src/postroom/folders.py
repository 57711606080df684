"""Private folders and files on this machine, readable only by their owner.

They hold all subscribers' addresses, and secrets. What Postroom creates is private from the first
moment; existing ones are tightened where that is safe, and `postroom check` reports the rest.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

from postroom.errors import PostroomError


class FolderError(PostroomError):
    """A folder that cannot be created or written; the text names it."""


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents for this user only; an existing one stays as it is.
    `OSError`."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def make_writable(folder: Path, called: str = "the folder") -> None:
    """Create or tighten a private folder, and check that it can be written. `FolderError`."""
    try:
        make_private(folder)
    except FileExistsError as exc:
        raise FolderError(f"{called} {folder} cannot be written: a file is in its place") from exc
    except OSError as exc:
        raise FolderError(f"{called} {folder} cannot be written: {exc.strerror}") from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FolderError(
            f"{called} {folder} cannot be written: check its permissions and the disk"
        )
    tighten(folder)


def tighten(path: Path) -> None:
    """Withdraw all rights of group and others from a file or folder of ours.

    Does nothing if it does not exist, if it belongs to another user, or if others need the folder:
    `/tmp`, the working folder, the user's home, or a parent of these.
    """
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if not is_private(mode) and not (stat.S_ISDIR(mode) and _is_shared(path, mode)):
            path.chmod(stat.S_IMODE(mode) & 0o700)


def is_private(mode: int) -> bool:
    """Return whether neither group nor others have any rights."""
    return not mode & 0o077


def create_private(path: Path) -> None:
    """Create an empty file for this user only, or tighten an existing one. `OSError`.

    An existing file is not opened: closing it would end locks that SQLite holds on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        tighten(path)


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing; if it is created, only this user can read it. `OSError`."""
    return cast(BinaryIO, open(path, "wb", opener=lambda name, how: os.open(name, how, 0o600)))


def nearest_existing(path: Path) -> Path:
    """Return this path if it exists, else its nearest existing parent."""
    return next((each for each in (path, *path.parents) if each.exists()), path)


def _is_shared(folder: Path, mode: int) -> bool:
    places = (Path.cwd(), Path.home())
    return bool(mode & stat.S_ISVTX) or any(
        place.is_relative_to(folder.resolve()) for place in places
    )
