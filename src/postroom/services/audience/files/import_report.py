"""The result of an import: counts, rejected lines, and when an import gives up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.services.audience.files.columns.columns import FileColumn
from postroom.services.audience.files.columns.meanings import Meaning

REJECTED_KEPT: Final = 10_000
_MOST_REASONS: Final = 100
_VALUE: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d[\d,-]*""")

MOST_UNUSABLE: Final = 10_000
"""An import gives up after more unusable lines than this, if they are more than a tenth of all: it
is the wrong file, or someone wants to keep the server busy."""

MOST_EMPTY: Final = 2_097_152
"""Also after more empty lines than this, twice the rows of the largest spreadsheet."""


class Existing(StrEnum):
    """What a line does to the fields of a subscriber who is already on the list.

    An empty cell never removes a value.
    """

    OVERWRITE = "overwrite"
    FILL_GAPS = "fill_gaps"
    KEEP = "keep"


class RejectedLine(msgspec.Struct, frozen=True):
    """A line that was not used, and why."""

    line: int
    email: str
    reason: str


class ImportReport(msgspec.Struct):
    """What an import did, or would do (`dry_run`). Each line is in one of the first five counts.

    `unsubscribed` addresses are not on the list afterwards. Of the others, `confirmed` were not
    confirmed before, and `blocked` are blocked by their line or suppressed. `suppressed` counts
    addresses that the import suppressed and that were not before. `errors` has the first of the
    `rejected` lines, `sample` the first rows of the file, `created_fields` the fields that were
    declared for columns of the file. `tool` is the name of the tool that the file comes from, and
    `warning` what to consider before such a file is imported. `reasons` counts rejected lines by
    reason, without the values in it.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    unsubscribed: int = 0
    rejected: int = 0
    confirmed: int = 0
    blocked: int = 0
    suppressed: int = 0
    errors: list[RejectedLine] = []
    columns: list[FileColumn] = []
    sample: list[list[str]] = []
    created_fields: list[str] = []
    tool: str = ""
    warning: str = ""
    reasons: dict[str, int] = {}
    dry_run: bool = False

    @property
    def lines(self) -> int:
        return self.added + self.updated + self.unchanged + self.unsubscribed + self.rejected

    @property
    def ignored_columns(self) -> list[str]:
        """Return the names of the columns that are not used."""
        unused = (each.name for each in self.columns if each.meaning is Meaning.UNUSED)
        return [name for name in unused if name]

    def reject(self, lines: list[RejectedLine]) -> None:
        """Count rejected lines, and keep the first ones."""
        self.rejected += len(lines)
        for each in lines:
            reason = _VALUE.sub("…", each.reason)
            if reason in self.reasons or len(self.reasons) < _MOST_REASONS:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.errors += lines[: max(0, REJECTED_KEPT - len(self.errors))]


class UnusableLines:
    """Counts the lines of one file that cannot be used."""

    def __init__(self) -> None:
        self._lines = 0
        self._empty = 0
        self._unusable = 0
        self._first: RejectedLine | None = None
        self._last_line = 0

    def count(self, lines: int, empty: int, rejected: Sequence[RejectedLine]) -> None:
        """Count lines with content, empty lines, and which of the former were rejected."""
        self._lines += lines
        self._empty += empty
        self._unusable += len(rejected)
        if rejected:
            self._first = self._first or rejected[0]
            self._last_line = rejected[-1].line

    def check(self, *, added: int, updated: int) -> None:
        """Raise `Invalid`, with what was imported so far, if there are too many."""
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
