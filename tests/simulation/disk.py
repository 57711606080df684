"""The disk of a simulated machine: journals in memory that survive the death of their process.

`installed` puts it in the place of the modules `os`, `fcntl` and `mmap` in the product's journal,
so that everything above these calls is the product's own code.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from postroom import owned_files
from postroom.sender.journal import journal, sent_log
from tests.simulation.environment import replaced
from tests.simulation.loop import Process, current_process

_DESCRIPTORS = itertools.count(1000)


class Inode:
    """A file: its bytes, and which open file has locked it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.locked_by: OpenFile | None = None


class OpenFile:
    def __init__(self, inode: Inode, process: Process) -> None:
        self.inode = inode
        self.process = process


class Disk:
    """The files of one machine, in one folder."""

    def __init__(self) -> None:
        self.files: dict[str, Inode] = {}

    @property
    def folder(self) -> DiskPath:
        return DiskPath(self, "")


class DiskPath:
    """As much of `pathlib.Path` as the journal uses."""

    def __init__(self, disk: Disk, name: str) -> None:
        self.disk = disk
        self.name = name

    def __truediv__(self, name: str) -> DiskPath:
        return DiskPath(self.disk, name)

    def __lt__(self, other: DiskPath) -> bool:
        return self.name < other.name

    def glob(self, pattern: str) -> list[DiskPath]:
        if not self.disk.files:
            return []
        return [DiskPath(self.disk, each) for each in fnmatch.filter(self.disk.files, pattern)]

    def exists(self) -> bool:
        return self.name in self.disk.files

    def unlink(self, missing_ok: bool = False) -> None:
        if self.disk.files.pop(self.name, None) is None and not missing_ok:
            raise FileNotFoundError(self.name)

    def read_bytes(self) -> bytes:
        return bytes(self.disk.files[self.name].data)

    def read_text(self, errors: str = "strict") -> str:
        return self.read_bytes().decode(errors=errors)


class Files:
    """The open files of all machines: what the kernel knows."""

    def __init__(self) -> None:
        self._open: dict[int, OpenFile] = {}

    def end(self, process: Process) -> None:
        """Release the locks of a process that has died, as the kernel does."""
        for descriptor, file in list(self._open.items()):
            if file.process is process:
                self.close(descriptor)

    # -- os ----------------------------------------------------------------------------------

    def open(self, path: DiskPath, flags: int, mode: int = 0o600) -> int:
        files = path.disk.files
        if path.name not in files:
            if not flags & 1:
                raise FileNotFoundError(path.name)
            files[path.name] = Inode()
        descriptor = next(_DESCRIPTORS)
        self._open[descriptor] = OpenFile(files[path.name], current_process())
        return descriptor

    def close(self, descriptor: int) -> None:
        file = self._open.pop(descriptor, None)
        if file is not None and file.inode.locked_by is file:
            file.inode.locked_by = None

    def write(self, descriptor: int, data: bytes) -> int:
        self._open[descriptor].inode.data += data
        return len(data)

    def stat(self, path: DiskPath) -> Inode:
        found = path.disk.files.get(path.name)
        if found is None:
            raise FileNotFoundError(path.name)
        return found

    def fstat(self, descriptor: int) -> Inode:
        return self._open[descriptor].inode

    # -- fcntl and mmap ----------------------------------------------------------------------

    def flock(self, descriptor: int, operation: int) -> None:
        file = self._open[descriptor]
        if file.inode.locked_by not in (None, file):
            raise BlockingIOError
        file.inode.locked_by = file

    def mmap(self, descriptor: int, size: int) -> MappedMemory:
        return MappedMemory(self._open[descriptor].inode)


class MappedMemory:
    """A file in memory that only takes the room that is written."""

    def __init__(self, inode: Inode) -> None:
        self._data = inode.data
        self._position = 0

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        self._position = position

    def write(self, data: bytes) -> None:
        end = self._position + len(data)
        self._data[self._position : end] = data
        self._position = end

    def __getitem__(self, key: slice) -> bytes:
        return bytes(self._data[key])

    def __setitem__(self, key: int, value: int) -> None:
        self._data[key] = value

    def close(self) -> None:
        return


_O_CREAT = 1


def _nothing(*given: object) -> None:
    return


@contextmanager
def installed(files: Files) -> Iterator[None]:
    """Let the journal use simulated files."""
    system: Any = SimpleNamespace(
        O_CREAT=_O_CREAT,
        O_RDWR=0,
        O_RDONLY=0,
        O_APPEND=0,
        O_CLOEXEC=0,
        open=files.open,
        close=files.close,
        write=files.write,
        stat=files.stat,
        fstat=files.fstat,
        path=SimpleNamespace(samestat=lambda one, other: one is other),
        posix_fallocate=_nothing,
    )
    locks = SimpleNamespace(LOCK_EX=2, LOCK_NB=4, flock=files.flock)
    replacements = (
        *((module, "os", system) for module in (journal, sent_log, owned_files)),
        (owned_files, "fcntl", locks),
        (journal, "mmap", SimpleNamespace(mmap=files.mmap)),
        *((module, "make_writable", _nothing) for module in (journal, sent_log)),
    )
    with replaced(replacements):
        yield
