"""HTML that is nested too deeply for the libraries that read it.

They build trees by recursion, so that a few hundred kilobytes of unclosed tags would end the whole
process, and unclosed tags such as `<b>` are repeated in every following paragraph.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]*)")
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
# A following one ends these, so authors need not.
_CLOSE_THEMSELVES: Final = frozenset(
    {"dd", "dt", "li", "option", "p", "tbody", "td", "tfoot", "th", "thead", "tr"}
)
DEEPEST: Final = 100
MOST_TAGS: Final = 200_000


def find_excess(html: str) -> int | None:
    """Return where HTML becomes too deep or too large to be read safely; None if it does not."""
    open_tags: Counter[str] = Counter()
    depth = size = 0
    for found in _TAG.finditer(html):
        name = found[2].lower()
        if name in _VOID or name in _CLOSE_THEMSELVES:
            size += 1 + depth
        elif not found[1]:
            open_tags[name] += 1
            depth += 1
            size += 1 + depth
        elif open_tags[name]:
            open_tags[name] -= 1
            depth -= 1
        if depth > DEEPEST or size > MOST_TAGS:
            return found.start()
    return None
