"""Folders for what is kept on this machine: whoever may look into one reads everybody's address."""

from __future__ import annotations

import os
from pathlib import Path

from postroom.errors import PostroomError


class FolderError(PostroomError):
    """A folder that cannot be made, or not be written to; the text names it."""


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone.

    One that is there already stays as it is. `OSError`.
    """
    if folder.is_dir():
        return
    make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def make_writable(folder: Path, called: str = "the folder") -> None:
    """The same, and be sure that it can be written to. `FolderError`."""
    try:
        make_private(folder)
    except FileExistsError as exc:
        raise FolderError(f"{called} {folder} cannot be written: a file is in its place") from exc
    except OSError as exc:
        raise FolderError(f"{called} {folder} cannot be written: {exc.strerror}") from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FolderError(f"{called} {folder} cannot be written: check its rights, and the disk")
