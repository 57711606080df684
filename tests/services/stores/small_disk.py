"""A disk of a few megabytes that can be filled and emptied."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.services.missing import require

_BLOCK = bytes(64 * 1024)


@dataclass(frozen=True)
class SmallDisk:
    """A file system in memory, mounted for one test."""

    folder: Path

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def fill(self) -> None:
        """Use up all of its room, to the last byte."""
        filler = os.open(self._filler, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            for size in (len(_BLOCK), 1):
                with suppress(OSError):  # no space left
                    while True:
                        os.write(filler, _BLOCK[:size])
        finally:
            os.close(filler)

    def fill_up_to(self, free: int) -> None:
        """Use up all of its room except for this many bytes."""
        with self._filler.open("wb") as filler:
            size = shutil.disk_usage(self.folder).free - free
            assert size > 0, "there is not even as much"
            os.posix_fallocate(filler.fileno(), 0, size)

    def make_room(self) -> None:
        """Give back what was filled."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def mounted_small_disk(megabytes: int, user: str | None = None) -> Iterator[SmallDisk]:
    """Mount a separate disk. Only root may do so, in a container only with the right to mount."""
    folder = Path(tempfile.mkdtemp(prefix="postroom-small-disk-"))
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "postroom-test", str(folder)]
    done = subprocess.run(mounting, capture_output=True, text=True)
    if done.returncode != 0:
        folder.rmdir()
        require("the right to mount a small disk (tmpfs)", "run the tests as root")
    try:
        if user is not None:
            shutil.chown(folder, user, user)
        yield SmallDisk(folder)
    finally:
        # Lazily: a process that a failed test left behind may still have files open there.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
