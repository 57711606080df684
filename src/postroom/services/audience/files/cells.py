"""Cells of CSV files: how they are compared, shown, and protected from being read as formulas."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_LONGEST_SHOWN: Final = 100

# A spreadsheet would read such a cell as a formula, even after spaces, so an export puts an
# apostrophe before it.
_FORMULA: Final = re.compile(r"'*(?:\s*[=+\-@]|[\t\r])")
_PROTECTED_FORMULA: Final = re.compile(r"'+(?:\s*[=+\-@]|[\t\r])")


def protected(cell: str) -> str:
    """Return the cell so that a spreadsheet treats it as text."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unprotected(cell: str) -> str:
    """Undo `protected`. An apostrophe that belongs to the text stays."""
    return cell[1:] if _PROTECTED_FORMULA.match(cell) else cell


def squeezed(name: str) -> str:
    """Return the letters and digits of a name without accents, in lower case, for comparison."""
    plain = name if name.isascii() else unicodedata.normalize("NFKD", name)
    return "".join(filter(str.isalnum, plain.casefold()))


def shown(text: str, *, longest: int = _LONGEST_SHOWN) -> str:
    """Return text from the file, printable and short enough for one line of a report."""
    plain = "".join(
        each if each.isprintable() else " " if each == "\t" else "�" for each in text[:longest]
    )
    return plain if len(text) <= longest else f"{plain}…"
