"""Blocks as text, for comparing two versions: what each block says, line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_PARAGRAPHS: Final = re.compile(r"\s*(?:</?(?:p|ul|ol)>|</li>|<br ?/?>)\s*", re.IGNORECASE)
_ITEM: Final = re.compile(r"<li>\s*", re.IGNORECASE)
_WORDS: Final = ("title", "text", "html")
"""What is shown without its name."""
_NAMES: Final = {"alt": "alternative text", "src": "picture"}
_KINDS: Final = {"html": "HTML", "posts": "List of posts", "social": "Social links"}


def readable_blocks(source: str) -> str:
    """Return what a document of blocks says; the source itself if it is not one."""
    try:
        document = json.loads(source)
        blocks = document["blocks"]
        lines = [f"{name}: {value}" for name, value in (document.get("slots") or {}).items()]
        lines += [*([""] if lines else []), *_blocks(blocks)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return source
    return "\n".join(lines).strip() or source


def _blocks(blocks: list[dict[str, Any]], within: str = "") -> Iterator[str]:
    for block in blocks:
        kind = str(block["type"])
        yield f"[{within}{_KINDS.get(kind, kind.capitalize())}]"
        yield from _fields({name: value for name, value in block.items() if name != "type"})
        for number, column in enumerate(block.get("columns") or (), 1):
            yield from _blocks(column, f"{within}Column {number}: ")
        yield ""


def _fields(block: dict[str, Any]) -> Iterator[str]:
    for name in _WORDS:
        if name in block:
            yield from _paragraphs(str(block[name])) if name == "html" else [str(block[name])]
    for name, value in block.items():
        if name in _WORDS or name == "columns":
            continue
        if isinstance(value, list):  # posts or links
            for each in value:
                yield "-"
                yield from _fields(each)
        elif value != "":
            yield f"{_NAMES.get(name, name)}: {value}"


def _paragraphs(html: str) -> Iterator[str]:
    """Yield the lines of a text; tags within a line stay, because they may be what has changed."""
    for line in _PARAGRAPHS.split(_ITEM.sub("• ", html)):
        if line.strip():
            yield line.strip()
