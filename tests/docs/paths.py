"""The paths through the code that `docs/architecture.md` traces."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.docs.test_docs import DOCS, ROOT

SOURCE = ROOT / "src/postroom"
_HOP = re.compile(r"^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \|", re.MULTILINE)


class Hop(NamedTuple):
    number: int
    file: str
    function: str


class TracedPath(NamedTuple):
    """A path, and the number of hops that its introduction gives."""

    hops: list[Hop]
    length: int


def traced_paths() -> list[TracedPath]:
    """Return the three paths, in their order."""
    text = (DOCS / "architecture.md").read_text()
    section = text.partition("## Three paths through the code\n")[2].partition("\n## ")[0]
    paths = []
    for path in section.split("\n### ")[1:]:
        [count] = re.findall(r"(\d+)\s+hops", path.partition("\n|")[0])
        hops = [Hop(int(number), file, name) for number, file, name in _HOP.findall(path)]
        paths.append(TracedPath(hops, int(count)))
    return paths
