"""HTML as tags and text, in one pass.

Python's own `html.parser` is not used: of 3.11 it takes minutes over 200 KB of unclosed tags and
gives up at `<![`. What is here reads every character at most twice, and reads anything.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import msgspec

_OPENING = re.compile(r"<(?:(/?)([A-Za-z][^\s/<>]*)|[!?/])")
# A `>` within quotes does not end a tag. Nothing is tried twice (`++`), or this could be slow.
_REST = re.compile(r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""")
_ATTRIBUTE = re.compile(
    r"""([^\s=/"'<>]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?""", re.ASCII
)


class Tag(msgspec.Struct, frozen=True):
    name: str
    closes: bool
    attributes: dict[str, str]


def tokens(document: str) -> Iterator[str | Tag]:
    """Text with its entities decoded, and tags between. An unclosed tag at the end is dropped."""
    done = position = 0
    quotes_close = True
    while opening := _OPENING.search(document, position):
        rest = _REST.match(document, opening.end()) if quotes_close and opening[2] else None
        if opening[2] and rest is None:
            quotes_close = False  # a quote without its other half: from here on every `>` counts
        end = rest.end() if rest else document.find(">", opening.end()) + 1
        yield html.unescape(document[done : opening.start()])
        if not end:
            return
        if opening[2]:
            name = opening[2].lower()
            yield Tag(name, bool(opening[1]), _attributes(document[opening.end() : end]))
        done = position = end
    yield html.unescape(document[done:])


def _attributes(written: str) -> dict[str, str]:
    return {
        found[1].lower(): html.unescape(found[2] or found[3] or found[4] or "")
        for found in _ATTRIBUTE.finditer(written)
    }
