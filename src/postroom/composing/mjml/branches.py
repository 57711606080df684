"""Conditions around sections and columns of MJML.

An author writes the markers in separate tags:

    <mj-raw>{% if city = "Berlin" %}</mj-raw>
    <mj-section> … </mj-section>
    <mj-raw>{% end %}</mj-raw>

or between the tags, which `parse` turns into the same. The compiler would put them into what
Outlook reads around sections. So the sections get classes instead, and the markers are put around
their `<div>` in the compiled HTML: without it, Outlook sees an empty row.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from postroom.composing.mjml.tree import Node
from postroom.domain.errors import Invalid
from postroom.mail.bodies.html import HtmlTag, tokens
from postroom.mail.personal.content_conditions import Marker, MarkerKind

_RAW: Final = "mj-raw"
_AROUND_DIVS: Final = frozenset({"mj-body", "mj-wrapper", "mj-section", "mj-group"})


class _Guard(msgspec.Struct, frozen=True):
    """What is put before and after a part of a document."""

    before: str
    after: str


class Branches:
    """The conditional sections of one document."""

    def __init__(self, marker_in: Callable[[str], Marker | None]) -> None:
        """`marker_in` returns the marker that the content of a tag stands for."""
        self._marker_in = marker_in
        self._prefix = f"if{secrets.token_hex(6)}n"  # cannot occur by chance
        self._guards: list[_Guard] = []

    def take_markers(self, root: Node) -> None:
        """Replace the markers between sections and columns by classes. `Invalid` if one has its
        counterpart elsewhere."""
        for node in root.walk():
            if node.name in _AROUND_DIVS:
                node.children = self._guarded(node)

    def _guarded(self, parent: Node) -> list[Node]:
        kept: list[Node] = []
        inside: list[tuple[Node, str]] = []  # each with the words before it
        words = ""
        for child in parent.children:
            marker = self._marker_in(child.text) if child.name == _RAW else None
            if marker is None:
                kept.append(child)
                if words:
                    inside.append((child, words))
                continue
            if (marker.kind is MarkerKind.IF) is bool(words):
                break
            if marker.kind is MarkerKind.END:
                for each, before in inside:
                    self._guard(each, _Guard(before, child.text))
                inside, words = [], ""
            else:
                words += child.text
        else:
            if not words:
                return kept
        raise Invalid("body", "{% if … %} and its {% end %} must be in the same tag of MJML")

    def _guard(self, node: Node, guard: _Guard) -> None:
        name = f"{self._prefix}{len(self._guards)}z"
        self._guards.append(guard)
        node.attributes["css-class"] = f"{name} {node.attributes.get('css-class', '')}".strip()

    def put_back(self, document: str) -> str:
        """Return the compiled document with the markers, and without the classes."""
        if not self._guards:
            return document
        pieces: list[str] = []
        done = 0
        for place, words in sorted(self._places(document)):
            pieces += [document[done:place], words]
            done = place
        pieces.append(document[done:])
        name = rf"{self._prefix}\d+z(?:-outlook)? ?"
        return re.sub(rf' class="{name}"|{name}', "", "".join(pieces))

    def _places(self, document: str) -> list[tuple[int, str]]:
        wanted = re.compile(rf"\bclass=\"[^\"]*?{self._prefix}(\d+)z[ \"]")
        places: list[tuple[int, str]] = []
        opened: list[_Guard | None] = []
        for token in tokens(document, "div"):
            if not isinstance(token, HtmlTag):
                continue
            if not token.closes:
                found = wanted.search(token.raw)
                guard = self._guards[int(found[1])] if found else None
                opened.append(guard)
                places += [(token.start, guard.before)] if guard else []
            elif opened and (guard := opened.pop()) is not None:
                places.append((token.end, guard.after))
        return places
