"""How much disk space must be free before a new message starts.

Records of the emails and the senders' journals grow while a message is sent. A message that has not
started can wait for space; one that runs into a full disk stops halfway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from postroom.domain.units import parse_size, show_size

_RESUME = 1.1
"""Messages start again when a tenth more than the mark is free. Otherwise, with free space around
the mark, they would stop and start again and again, with an alert each time."""


class SpaceMark(msgspec.Struct, frozen=True):
    """The low-space mark: bytes, a share of the disk, or the smaller of both. 5% of a large disk
    is plenty, and a small disk may not even have 200 MB. Without either there is no mark."""

    size: int | None = None
    share: float | None = None

    def needed(self, total: int) -> int:
        """Return how many bytes must be free on a disk of this size."""
        marks = [] if self.size is None else [self.size]
        if self.share is not None:
            marks.append(int(total * self.share))
        return min(marks, default=0)


class FolderSpace(msgspec.Struct, frozen=True):
    """The disk under a folder, in bytes."""

    folder: str
    free: int
    total: int


class Shortage(msgspec.Struct, frozen=True):
    """A folder whose disk has too little space. Messages start again once `needed` bytes are
    free."""

    folder: str
    free: int
    needed: int

    def __str__(self) -> str:
        return f"{show_size(self.free)} free, {show_size(self.needed)} needed"


def find_shortage(
    spaces: Iterable[FolderSpace], mark: SpaceMark, *, was_short: bool = False
) -> Shortage | None:
    """Return the folder that lacks the most space, or None if messages may start. If they are
    waiting already (`was_short`), a little more than the mark must be free."""
    found = []
    for each in spaces:
        mark_here = mark.needed(each.total)
        to_resume = int(mark_here * _RESUME)
        if each.free < (to_resume if was_short else mark_here):
            found.append(Shortage(each.folder, each.free, to_resume))
    return max(found, key=lambda shortage: shortage.needed - shortage.free, default=None)


def parse_space_mark(text: str) -> SpaceMark:
    """Parse `200MB`, `5%` or `200MB,5%`; `0` means no mark."""
    if not text.strip() or text.strip() == "0":
        return SpaceMark()
    size: int | None = None
    share: float | None = None
    for part in text.split(","):
        percent = re.fullmatch(r"\s*(\d{1,2}(?:\.\d{1,3})?)\s*%\s*", part, re.ASCII)
        if percent is not None and share is None:
            share = float(percent[1]) / 100
        elif percent is None and size is None:
            size = _size(part)
        else:
            raise ValueError(_HOW)
    return SpaceMark(size, share)


_HOW = (
    "must be a size, a percentage or both, such as 200MB,5% (the smaller counts), or 0 for no limit"
)


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as exc:
        raise ValueError(_HOW) from exc
