"""When an import gives up: it is the wrong file, or somebody wants to keep the server busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postroom.domain.errors import Invalid
from postroom.services.audience.files.subscriber_lines import RejectedLine

MOST_UNUSABLE: Final = 10_000
"""An import stops when more lines than this cannot be used, and more than a tenth of all lines."""

MOST_EMPTY: Final = 2_097_152
"""And when there are more empty lines than this: twice the rows of the largest spreadsheet."""


class UnusableLines:
    """Counts the lines of one file that cannot be used."""

    def __init__(self) -> None:
        self._lines = 0
        self._empty = 0
        self._unusable = 0
        self._first: RejectedLine | None = None
        self._last_line = 0

    def count(self, lines: int, empty: int, rejected: Sequence[RejectedLine]) -> None:
        """Count lines that were just read: those with content, empty ones, and which of the former
        are rejected."""
        self._lines += lines
        self._empty += empty
        self._unusable += len(rejected)
        if rejected:
            self._first = self._first or rejected[0]
            self._last_line = rejected[-1].line

    def check(self, *, added: int, updated: int) -> None:
        """Raise `Invalid` if there are too many; it says how far the import came."""
        so_far = (
            f"{added:,} subscribers were added and {updated:,} updated before. Correct the file and"
            " import it again"
        )
        if self._empty > MOST_EMPTY:
            raise Invalid("file", f"has more than {MOST_EMPTY:,} empty lines. {so_far}")
        if self._unusable <= MOST_UNUSABLE or self._unusable * 10 <= self._lines:
            return
        first = f" (line {self._first.line}: {self._first.reason})" if self._first else ""
        raise Invalid(
            "file",
            f"too many lines cannot be used: {self._unusable:,} of {self._lines:,}, up to line"
            f" {self._last_line:,}{first}. {so_far}",
        )
