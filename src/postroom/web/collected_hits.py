"""Hits that are not queued yet: in memory, and in a file from which the next web server on this
machine queues them if this one is killed.

Each hit is one line, written before its visitor gets a response, so SIGKILL loses none. (A crash of
the machine may lose the last lines.) Once everything is collected, a line with a number says how
many of the first hits are queued. A web server that is killed just before it writes one leads to
the same batch once more: it has the file's ID, by which it is recognised for ten minutes.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from postroom.domain.messages.hits import Hit, HitBatch
from postroom.folders import make_private
from postroom.owned_files import create_locked, lock_of_dead_owners

log = logging.getLogger(__name__)

_SUFFIX: Final = ".hits"
_MOST_IN_BATCH: Final = 380  # of up to 120 bytes: a queue message holds 48,000


class CollectedHits:
    def __init__(
        self,
        path: Path,
        hits: list[Hit],
        file: int | None = None,
        queued: int = 0,
        *,
        is_recorded: bool = True,
    ) -> None:
        self._path = path
        self._hits = hits
        self._file = file
        self._queued = queued  # the first ones
        self._is_recorded = is_recorded

    def __len__(self) -> int:
        return len(self._hits)

    def add(self, hit: Hit) -> None:
        self._hits.append(hit)
        if not self._is_recorded:
            return
        try:
            self._write(hit)
        except OSError as exc:
            # Nothing more is written, so that a batch in the file begins like the same one here.
            self._is_recorded = False
            log.warning("hits are lost if this web server is killed now: %s", exc)

    def _write(self, what: Hit | int) -> None:
        if self._file is None:
            make_private(self._path.parent)
            self._file = create_locked(self._path)
        line = msgspec.json.encode(what) + b"\n"
        if os.write(self._file, line) < len(line):
            raise OSError(f"no space in {self._path.parent}")

    def batch(self) -> HitBatch | None:
        """Return the batch to queue next, under the same ID until it is queued; None if
        everything is queued."""
        some = tuple(self._hits[self._queued : self._queued + _MOST_IN_BATCH])
        return HitBatch(f"{self._path.stem}.{self._queued}", some) if some else None

    def batch_queued(self) -> None:
        self._queued += _MOST_IN_BATCH
        if self._file is None or not self._is_recorded:
            return
        try:
            self._write(self._queued)
        except OSError as exc:
            self._is_recorded = False
            log.warning("hits may count twice if this web server is killed now: %s", exc)

    def remove(self) -> None:
        """Remove the file: all hits are queued."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Leave the file to the next web server."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def new_collection(folder: Path) -> CollectedHits:
    """Return an empty collection; its file is created with the first hit."""
    return CollectedHits(folder / f"{secrets.token_hex(8)}{_SUFFIX}", [])


def left_by_dead_servers(folder: Path) -> Iterator[CollectedHits]:
    """Yield what killed web servers on this machine had not queued."""
    for path, file in lock_of_dead_owners(folder, _SUFFIX):
        *lines, rest = path.read_bytes().split(b"\n")  # a full disk may have cut the last one
        try:
            found = [msgspec.json.decode(line, type=Hit | int) for line in lines]
        except msgspec.DecodeError as exc:
            log.error("the hits in %s are not counted: %s", path, exc)
            os.close(file)
            continue
        hits = [each for each in found if isinstance(each, Hit)]
        queued = max((each for each in found if isinstance(each, int)), default=0)
        yield CollectedHits(path, hits, file, queued, is_recorded=not rest)
