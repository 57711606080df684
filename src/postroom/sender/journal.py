"""What this sender was doing, in a local file: so that its successor knows, should it be killed.

Before an email can leave the process, a line says so; when its answer comes, another one does. The
file is mapped into memory: a line is there for the successor as soon as it is written, without a
call into the system, and SIGKILL leaves it whole or without its end. (A crash of the machine may
lose the last lines; then the pages in hand are in doubt.) The file is locked for as long as its
sender lives. Another sender on this machine that can lock it knows that the first one is dead, and
settles its pages from what is written (`recovery.py`).

    P page item receipt body     a page was taken, with the work item that names it
    R page receipt               its lease was renewed
    H page address               about to be handed over
    S page address kind reply    the answer
    E page                       the page is settled in the store, or given back
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from postroom.domain.addresses import Address
from postroom.transport.contract import Result, ResultKind

_SUFFIX = ".journal"
_SIZE = 8 * 1024 * 1024
_LONGEST_REPLY = 500


class JournalledPage(msgspec.Struct):
    """What a journal says of a page that was not settled."""

    item_id: str
    receipt: str
    item_body: str
    handed_over: set[Address] = msgspec.field(default_factory=set)
    results: dict[Address, Result] = msgspec.field(default_factory=dict)


class Journal:
    """The journal of this process. Long work goes into further files; done ones are removed."""

    def __init__(self, folder: Path, owner: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.owner = owner
        self._folder = folder
        self._number = 0
        self._current = self._begin_file()
        self._pages: dict[str, _File] = {}

    def page_taken(self, page: str, item_id: str, receipt: str, item_body: str) -> None:
        if self._current.is_full:
            self._current = self._begin_file()
        self._pages[page] = self._current
        self._current.pages.add(page)
        self._current.write(f"P\t{page}\t{item_id}\t{receipt}\t{item_body}\n")

    def page_renewed(self, page: str, receipt: str) -> None:
        self._pages[page].write(f"R\t{page}\t{receipt}\n")

    def handing_over(self, page: str, address: Address) -> None:
        self._pages[page].write(f"H\t{page}\t{address}\n")

    def settled(self, page: str, address: Address, result: Result) -> None:
        self._pages[page].write(f"S\t{page}\t{address}\t{result.kind}\t{_flat(result.reply)}\n")

    def page_ended(self, page: str) -> None:
        file = self._pages.pop(page)
        file.write(f"E\t{page}\n")
        file.pages.discard(page)
        if not file.pages:
            if file is self._current:
                file.empty()
            else:
                file.remove()

    def close(self) -> None:
        """Remove what tells nothing any more; pages that could not be settled are left to tell."""
        for file in {self._current, *self._pages.values()}:
            if file.pages:
                file.leave()
            else:
                file.remove()

    def _begin_file(self) -> _File:
        self._number += 1
        return _File(self._folder / f"{self.owner}.{self._number}{_SUFFIX}")


class _File:
    """A file of fixed size, locked, in memory. What is not written yet is zeros."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        # Reserved now: memory whose disk is full would end the process when it is written.
        os.posix_fallocate(self._file, 0, _SIZE)
        self._memory = mmap.mmap(self._file, _SIZE)
        self._end = 0
        self.pages: set[str] = set()

    @property
    def is_full(self) -> bool:
        """No room for further pages: those that are open may still need the other half."""
        return self._end > _SIZE // 2

    def write(self, line: str) -> None:
        data = line.encode()
        end = self._end + len(data)
        self._memory[self._end : end] = data
        self._end = end

    def empty(self) -> None:
        self._memory[: self._end] = bytes(self._end)
        self._end = 0

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        self._memory.close()
        os.close(self._file)


class DeadJournal:
    """The journal of a sender that is dead, locked by us."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file

    @property
    def owner(self) -> str:
        return self.path.name.removesuffix(_SUFFIX).rpartition(".")[0]

    def open_pages(self) -> dict[str, JournalledPage]:
        """The pages that were not settled, by their partition."""
        pages: dict[str, JournalledPage] = {}
        written = self.path.read_bytes().partition(b"\0")[0]
        for line in written.splitlines(keepends=True):
            if line.endswith(b"\n"):
                _apply(line[:-1].decode(errors="replace").split("\t"), pages)
        return pages

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self._file)

    def leave(self) -> None:
        """For another time."""
        os.close(self._file)


def dead_journals(folder: Path) -> Iterator[DeadJournal]:
    """Journals whose senders are dead, each locked while it is looked at."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        if path.exists():
            yield DeadJournal(path, file)
        else:
            os.close(file)


def _apply(words: list[str], pages: dict[str, JournalledPage]) -> None:
    match words:
        case ["P", page, item_id, receipt, body]:
            pages[page] = JournalledPage(item_id, receipt, body)
        case ["R", page, receipt] if page in pages:
            pages[page].receipt = receipt
        case ["H", page, address] if page in pages:
            pages[page].handed_over.add(Address(address))
            pages[page].results.pop(Address(address), None)
        case ["S", page, address, kind, reply] if page in pages:
            pages[page].results[Address(address)] = Result(ResultKind(kind), reply)
        case ["E", page]:
            pages.pop(page, None)


def _flat(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REPLY]
