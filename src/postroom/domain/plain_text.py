"""Text for headers and pages: without control characters, and on one line where needed."""

from __future__ import annotations

import unicodedata

from postroom.domain.errors import Invalid

# Line and paragraph separators are not control characters, but some software breaks lines there.
_LINE_BREAKS = {"\u2028", "\u2029"}
# Characters that change the direction of the text around them: they can disguise what it says.
_OVERRIDES = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def one_line(field: str, text: str, *, longest: int, required: bool = True) -> str:
    """Return the text, trimmed, if it can be used in a header. `Invalid`."""
    if not isinstance(text, str):
        raise Invalid(field, "must be text")
    trimmed = text.strip()
    if required and not trimmed:
        raise Invalid(field, "must not be empty")
    if len(trimmed) > longest:
        raise Invalid(field, f"must have at most {longest} characters, not {len(trimmed)}")
    _check_characters(field, trimmed)
    return trimmed


def some_lines(field: str, text: str, *, longest: int) -> str:
    """Return text of several lines, or none, as `one_line` does; lines end with a line feed."""
    if not isinstance(text, str):
        raise Invalid(field, "must be text")
    trimmed = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if len(trimmed) > longest:
        raise Invalid(field, f"must have at most {longest} characters, not {len(trimmed)}")
    _check_characters(field, trimmed.replace("\n", "").replace("\t", ""))
    return trimmed


def _check_characters(field: str, text: str) -> None:
    if text.isascii() and text.isprintable():  # most texts, and an import checks millions
        return
    for character in text:
        if character in _LINE_BREAKS or character in _OVERRIDES or _is_unprintable(character):
            raise Invalid(
                field, f"contains a character that is not allowed: U+{ord(character):04X}"
            )


def _is_unprintable(character: str) -> bool:
    """Return whether a character is a control character, half a surrogate pair or unassigned.

    Unassigned ones are allowed: they are next year's emoji, of which this Python does not know yet.
    """
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cc", "Cs")
        or code & 0xFFFE == 0xFFFE  # the last two of each plane
        or 0xFDD0 <= code <= 0xFDEF
    )


def printable(text: str, *, longest: int) -> str:
    """Return foreign text as one line for a log: printable, and cut if it is too long."""
    shown = "".join(
        "\N{REPLACEMENT CHARACTER}"
        if each in _LINE_BREAKS or each in _OVERRIDES or _is_unprintable(each)
        else each
        for each in text[: longest + 1]
    )
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
