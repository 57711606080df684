"""What is wrong, or could be better, with a message."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from postroom.mail.personal.positions import line_and_column

MOST_FINDINGS: Final = 100
"""A longer list would not help, and each finding takes longer than the one before."""


class Level(StrEnum):
    ERROR = "error"
    """The message cannot be sent."""
    WARNING = "warning"
    INFO = "info"


class ContentFinding(msgspec.Struct, frozen=True):
    """One finding. A line and column of 0 mean the whole message."""

    level: Level
    code: str
    text: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.text}" if self.line else self.text


class Findings:
    """Collects the findings about one source, whose positions they name.

    If the text that is examined differs from the source, `index` maps an index in that text to one
    in the source.
    """

    def __init__(self, source: str, index: Callable[[int], int] = lambda at: at) -> None:
        self._source = source
        self._index = index
        self._found: list[ContentFinding] = []

    def use_index(self, index: Callable[[int], int]) -> None:
        self._index = index

    def add(self, level: Level, code: str, text: str, at: int) -> None:
        """Add a finding about the character at this index of the source."""
        if len(self._found) >= MOST_FINDINGS:
            return
        self._add(
            ContentFinding(level, code, text, *line_and_column(self._source, self._index(at)))
        )

    def add_at(self, level: Level, code: str, text: str, line: int, column: int) -> None:
        """Add a finding whose position in the source is known."""
        self._add(ContentFinding(level, code, text, line, column))

    def _add(self, found: ContentFinding) -> None:
        if len(self._found) < MOST_FINDINGS and found not in self._found:
            self._found.append(found)

    def error(self, code: str, text: str, at: int) -> None:
        self.add(Level.ERROR, code, text, at)

    def warn(self, code: str, text: str, at: int) -> None:
        self.add(Level.WARNING, code, text, at)

    @property
    def has_errors(self) -> bool:
        return any(each.level is Level.ERROR for each in self._found)

    def sorted(self) -> tuple[ContentFinding, ...]:
        """Return the findings in the order of their lines."""
        return tuple(sorted(self._found, key=lambda each: (each.line, each.column)))
