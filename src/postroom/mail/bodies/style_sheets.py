"""What a style sheet loads, however it is written: with comments and escapes, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})[ \t\r\n\f]?|\r?\n|(.))", re.DOTALL)
_LAST_CHARACTER: Final = 0x10FFFF
_PROGRAMS: Final = re.compile(r"expression\s*\(|\bbehavior\s*:|-moz-binding", re.IGNORECASE)
_LOADED: Final = re.compile(
    r"""\b(?:url|src)\(\s*+["']?([^"')]*+)|@import\s*+["']([^"']*+)""", re.IGNORECASE
)
_IMAGE_SET: Final = re.compile(r"image-set\(", re.IGNORECASE)
_TEXT: Final = re.compile(r"""["']([^"']*+)["']""")
_LONGEST_SET: Final = 5_000


def plain_css(css: str) -> str:
    """Return CSS without comments, and with its escapes resolved."""
    if "\\" not in css and "/*" not in css:
        return css
    return _ESCAPE.sub(_unescaped, _COMMENT.sub("", css))


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        number = int(found[1], 16)
        return chr(number) if number <= _LAST_CHARACTER else ""
    return found[2] or ""


def runs_programs(css: str) -> bool:
    """Return whether plain CSS has what old programs run."""
    return _PROGRAMS.search(css) is not None


def loaded_by(css: str) -> Iterator[str]:
    """Yield the URLs that plain CSS loads."""
    for found in _LOADED.finditer(css):
        yield found[1] or found[2] or ""
    for begin in _IMAGE_SET.finditer(css):
        declaration = css[begin.end() : begin.end() + _LONGEST_SET].partition(";")[0]
        yield from _TEXT.findall(declaration)
