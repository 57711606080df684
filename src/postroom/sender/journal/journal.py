"""A sender's journal: a local file from which the next sender settles its pages if it is killed.

Before an email can leave the process, its mark is set, and changed when its result comes. The file
is mapped into memory: writing needs no system call, and SIGKILL leaves a line whole or without its
end. A crash of the machine may lose the last lines; then the active pages are in doubt. The file is
locked for as long as its sender lives. Another sender on this machine that can lock it knows that
the first one is dead, and settles its pages (`recovery.py`).

    P page item receipt body     a page was taken, with the work item that names it
    R page receipt               its lease was renewed
    A page marks address …       its emails are being sent; a mark for each: `-`, `H` as soon as it
                                 is about to be handed over, then the byte of its result
    K page byte kind reply       a result that one or more of these emails got
    S page number kind reply     the result of the email with this number (as version 1 wrote it)
    E page                       the page is settled in the store, or given back
"""

from __future__ import annotations

import glob
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.folders import make_writable
from postroom.owned_files import create_locked, lock_of_dead_owners
from postroom.storage import StoreFull
from postroom.transport.contract import Result, ResultKind

_SUFFIX = ".journal"
_SIZE = 8 * 1024 * 1024
_LONGEST_REPLY = 500
_NO = ord("-")
_HANDED_OVER = ord("H")
_FIRST_RESULT = 128  # the bytes of a page's results begin here; it has at most 100 of them
_ACCEPTED = ResultKind.ACCEPTED  # looking up a member takes longer than comparing it


class JournalledPage(msgspec.Struct):
    """An unsettled page in a journal."""

    item_id: str
    receipt: str
    item_body: str
    addresses: list[Address] = msgspec.field(default_factory=list)
    marks: bytes = b""
    handed_over: set[Address] = msgspec.field(default_factory=set)
    results: dict[Address, Result] = msgspec.field(default_factory=dict)

    @property
    def may_have_arrived(self) -> set[Address]:
        """Emails that were accepted, or handed over without a reply."""
        return {
            address
            for address in self.handed_over
            if (result := self.results.get(address)) is None or result.may_have_arrived
        }


class Journal:
    """The journal of this process. It continues in further files; finished ones are removed."""

    def __init__(self, folder: Path, owner: str) -> None:
        make_writable(folder)
        self.owner = owner
        self._folder = folder
        self._number = 0
        self._current: _File | None = None
        self._spare: _File | None = None
        self._pages: dict[str, _File] = {}

    def prepare(self) -> None:
        """Make sure that there is room for more pages; raise `StoreFull`."""
        self._room()

    def _room(self) -> _File:
        if self._current is None or self._current.is_full:
            if self._spare is not None:
                self._current, self._spare = self._spare, None
                return self._current
            self._number += 1
            path = self._folder / f"{self.owner}.{self._number}{_SUFFIX}"
            try:
                self._current = _File(path)
            except OSError as exc:
                path.unlink(missing_ok=True)
                reason = f"{exc.strerror}: {self._folder}"
                raise StoreFull(f"no space for a sender's journal ({reason})") from exc
        return self._current

    def page_taken(self, page: str, item_id: str, receipt: str, item_body: str) -> None:
        # A page that could not be settled before continues in its file.
        file = self._pages.setdefault(page, self._room())
        file.pages.add(page)
        file.write(f"P\t{page}\t{item_id}\t{receipt}\t{item_body}\n")

    def page_renewed(self, page: str, receipt: str) -> None:
        self._pages[page].write(f"R\t{page}\t{receipt}\n")

    def sending(
        self, page: str, addresses: Sequence[Address], listener: ResultListener | None = None
    ) -> JournalledSending:
        """Note that the emails of a page are about to be sent; return their watcher."""
        return JournalledSending(self._pages[page], page, addresses, listener or _NO_LISTENER)

    def page_ended(self, page: str) -> None:
        file = self._pages.pop(page)
        file.write(f"E\t{page}\n")
        file.pages.discard(page)
        if not file.pages:
            if file is self._current:
                file.empty()
            elif self._spare is None:  # creating a file takes milliseconds
                file.empty()
                self._spare = file
            else:
                file.remove()

    def close(self) -> None:
        """Remove files without unsettled pages; leave the others to the next sender."""
        for file in filter(None, {*self._pages.values(), self._current, self._spare}):
            if file.pages:
                file.leave()
            else:
                file.remove()


class ResultListener(Protocol):
    """Gets each result after it is recorded. Called for every email, so it must be quick."""

    @property
    def accepted(self) -> Callable[[Address], None]: ...

    def failed(self, address: Address, result: Result) -> None: ...


class _NoListener:
    def accepted(self, address: Address) -> None:
        return

    def failed(self, address: Address, result: Result) -> None:
        return


_NO_LISTENER = _NoListener()


class JournalledSending:
    """Records what happens to the emails of a page, and keeps their results. A `Watcher`."""

    def __init__(
        self, file: _File, page: str, addresses: Sequence[Address], listener: ResultListener
    ) -> None:
        self._memory = file.memory
        start = f"A\t{page}\t"
        marks = chr(_NO) * len(addresses)
        self._marks = file.memory.tell() + len(start.encode())
        file.write("\t".join([start + marks, *addresses]) + "\n")
        self._write = file.write
        self._known = f"K\t{page}\t"
        self._last: Result | None = None
        self._last_mark = _FIRST_RESULT - 1
        self._addresses = addresses
        self._accepted = listener.accepted
        self._failed = listener.failed
        self.results: list[Result | None] = [None] * len(addresses)

    def handing_over(self, position: int) -> None:
        self._memory[self._marks + position] = _HANDED_OVER

    def settled(self, position: int, result: Result) -> None:
        self.results[position] = result
        mark = self._marks + position
        if self._memory[mark] == _HANDED_OVER:
            if result is not self._last and result != self._last:  # most emails get the same
                self._note(result)
            self._memory[mark] = self._last_mark
        if result.kind is _ACCEPTED:
            self._accepted(self._addresses[position])
        else:
            self._failed(self._addresses[position], result)

    def _note(self, result: Result) -> None:
        """Write down a result, under the next byte."""
        self._last = result
        self._last_mark += 1
        reply = result.reply
        if len(reply) > _LONGEST_REPLY or not reply.isprintable():
            reply = _flat(reply)
        self._write(f"{self._known}{self._last_mark}\t{result.kind}\t{reply}\n")

    def unanswered(self) -> list[int]:
        """Return the emails that were handed over and have no result."""
        marks = self._memory[self._marks : self._marks + len(self.results)]
        return [
            position
            for position, result in enumerate(self.results)
            if result is None and marks[position] == _HANDED_OVER
        ]


class _File:
    """A locked, memory-mapped file of fixed size; the unwritten rest is zeros."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = create_locked(path)
        try:
            # Reserved now: with a full disk, writing to the memory later would kill the process.
            os.posix_fallocate(self._file, 0, _SIZE)
            self.memory = mmap.mmap(self._file, _SIZE)
        except OSError:
            os.close(self._file)
            raise
        self.pages: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more pages: open ones may need the other half."""
        return self.memory.tell() > _SIZE // 2

    def write(self, line: str) -> None:
        self.memory.write(line.encode())

    def empty(self) -> None:
        written = self.memory.tell()
        self.memory.seek(0)
        self.memory.write(bytes(written))
        self.memory.seek(0)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        self.memory.close()
        os.close(self._file)


class DeadJournal:
    """The journal of a dead sender, locked by us."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file

    @property
    def owner(self) -> str:
        return self.path.name.removesuffix(_SUFFIX).rpartition(".")[0]

    def open_pages(self) -> dict[str, JournalledPage]:
        """Return the unsettled pages by partition."""
        pages: dict[str, JournalledPage] = {}
        written = self.path.read_bytes().partition(b"\0")[0]
        for line in written.splitlines(keepends=True):
            if line.endswith(b"\n"):
                _apply(line[:-1].split(b"\t"), pages)
        return pages

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self._file)

    def leave(self) -> None:
        """Close it without removing it."""
        os.close(self._file)


def has_journal(folder: Path, owner: str) -> bool:
    """Return whether a sender's journal is on this machine: it is alive, or not settled yet."""
    return any(folder.glob(f"{glob.escape(owner)}.*{_SUFFIX}"))


def dead_journals(folder: Path) -> Iterator[DeadJournal]:
    """Yield the journals of dead senders, each locked while it is read."""
    for path, file in lock_of_dead_owners(folder, _SUFFIX):
        yield DeadJournal(path, file)


def _apply(fields: list[bytes], pages: dict[str, JournalledPage]) -> None:
    match [each.decode(errors="replace") for each in fields]:
        case ["P", page, item_id, receipt, body]:
            # Taken again before it was settled: earlier hand-overs still count.
            found = pages.setdefault(page, JournalledPage(item_id, receipt, body))
            found.item_id, found.receipt, found.item_body = item_id, receipt, body
        case ["R", page, receipt] if page in pages:
            pages[page].receipt = receipt
        case ["A", page, _, *addresses] if page in pages:
            found = pages[page]
            found.addresses = [Address(address) for address in addresses]
            found.marks = fields[2]
            again = {a for a, mark in zip(found.addresses, found.marks, strict=True) if mark != _NO}
            found.handed_over |= again
            for address in again:  # the result of this attempt follows, if there is one
                found.results.pop(address, None)
        case ["K", page, byte, kind, reply] if page in pages:
            found = pages[page]
            result = Result(ResultKind(kind), reply)
            marked = zip(found.addresses, found.marks, strict=True)
            found.results |= {address: result for address, mark in marked if mark == int(byte)}
        case ["S", page, number, kind, reply] if page in pages:
            found = pages[page]
            found.results[found.addresses[int(number)]] = Result(ResultKind(kind), reply)
        case ["E", page]:
            pages.pop(page, None)


def _flat(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REPLY]
