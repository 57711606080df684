"""Which emails a sender has sent during the last minute, in local files.

`LostHistory` compares them with a store that may have lost their records. They are in files because
a sender may be killed while the database fails over: the next sender on this machine reads them.

A file covers half a minute and is removed a minute later. Its first line names the database server
that has the records; each further line is a work item and the addresses of its emails:

    history start
    item address …

A line is one write, so SIGKILL leaves it whole. (A crash of the machine may lose the last lines.)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.errors import Invalid
from postroom.domain.messages.pages import WorkItem, parse_work_item
from postroom.folders import make_writable
from postroom.owned_files import create_locked, lock_of_dead_owners
from postroom.storage import Server

log = logging.getLogger(__name__)

KEPT_SECONDS = 60.0
_FILE_SECONDS = 30.0
_SUFFIX = ".sent"


class SentLog:
    """The emails that this process has sent."""

    def __init__(self, folder: Path, owner: str) -> None:
        make_writable(folder)
        self._folder = folder
        self._owner = owner
        self._number = 0
        self._files: list[_File] = []
        self._is_failing = False

    def add(self, server: Server, item: WorkItem, addresses: Iterable[Address]) -> None:
        """Record that emails of a page were sent, before `server` does."""
        try:
            self._file_for(server).write("\t".join([str(item), *addresses]))
            self._is_failing = False
        except OSError as exc:
            # Still in memory: missing only if this sender is killed now.
            if not self._is_failing:
                log.warning("sent emails cannot be recorded in a file now: %s", exc)
            self._is_failing = True

    def prune(self) -> None:
        """Remove the files that are no longer needed."""
        oldest = clock.monotonic() - _FILE_SECONDS - KEPT_SECONDS
        for file in [each for each in self._files if each.created_at < oldest]:
            file.remove()
            self._files.remove(file)

    def close(self) -> None:
        """Leave the files to the next sender: the store may still lose the last records."""
        for file in self._files:
            file.leave()
        self._files.clear()

    def _file_for(self, server: Server) -> _File:
        newest = self._files[-1] if self._files else None
        oldest = clock.monotonic() - _FILE_SECONDS
        if newest is None or newest.server != server or newest.created_at < oldest:
            self._number += 1
            path = self._folder / f"{self._owner}.{self._number}{_SUFFIX}"
            newest = _File(path, server)
            self._files.append(newest)
        return newest


class _File:
    def __init__(self, path: Path, server: Server) -> None:
        self._path = path
        self._file = create_locked(path)
        self.server = server
        self.created_at = clock.monotonic()
        try:
            self.write(f"{server.history}\t{server.started_at}")
        except OSError:
            self.remove()
            raise

    def write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        os.close(self._file)


class DeadSentLog:
    """A file of a dead sender, locked by us."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        first, *self._lines = path.read_text(errors="replace").split("\n")
        history, _, started_at = first.partition("\t")
        self.server = Server(history, started_at)

    @property
    def owner(self) -> str:
        return self._path.name.removesuffix(_SUFFIX).rpartition(".")[0]

    def pages(self) -> Iterator[tuple[WorkItem, set[Address]]]:
        """Yield which emails of which pages were sent."""
        for line in self._lines[:-1]:  # a full disk may have cut the last one
            body, *addresses = line.split("\t")
            try:
                yield parse_work_item(body), {Address(address) for address in addresses}
            except Invalid:
                continue

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Leave it to another sender."""
        os.close(self._file)


def dead_sent_logs(folder: Path) -> Iterator[DeadSentLog]:
    """Yield the files of dead senders on this machine, each locked."""
    for path, file in lock_of_dead_owners(folder, _SUFFIX):
        yield DeadSentLog(path, file)
