"""Places in a text as people count them."""

from __future__ import annotations

import re
from typing import Final

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


def position_of(text: str, start: int) -> str:
    """Return a place in a text in words: `line 2, column 7`."""
    line, column = line_and_column(text, start)
    return f"line {line}, column {column}"


def line_and_column(text: str, start: int) -> tuple[int, int]:
    """Return the line and column of a place in a text, both counted from 1."""
    line, line_start = 1, 0
    for found in _LINE_END.finditer(text, 0, start):
        line, line_start = line + 1, found.end()
    return line, start - line_start + 1
