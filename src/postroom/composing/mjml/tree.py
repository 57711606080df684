"""MJML as a tree whose nodes know their places in the source.

Our compiler silently accepts unknown tags, so we read the source first. Reading does not fail: what
cannot be read is a finding.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from postroom.composing.content_findings import Findings
from postroom.composing.mjml import tags as mjml_tags
from postroom.composing.protection import HiddenFields

_MARKUP: Final = re.compile(r"<(?:(/?)([A-Za-z][A-Za-z0-9:_-]*)|!--|!doctype|\?)", re.IGNORECASE)
_TAG_REST: Final = re.compile(r"""((?:[^<>"']++|"[^"]*+"|'[^']*+')*+)>""")
_ATTRIBUTE: Final = re.compile(
    r"""([^\s=/"'<>]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>]++)))?"""
)
_RAW: Final = mjml_tags.HTML_CONTENT | mjml_tags.TEXT_CONTENT | {mjml_tags.STYLE}
_MARKED: Final = "mj-raw"
_DEEPEST: Final = 30

CONTENT_TAG: Final = "pr-content"
"""Where in a template the message goes. Only we write it."""


class Node(msgspec.Struct):
    """A tag. `text` is the source of its content, if that is not MJML but HTML, text or CSS."""

    name: str
    start: int
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    children: list[Node] = msgspec.field(default_factory=list)
    text: str = ""
    text_start: int = 0

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, name: str) -> Node | None:
        return next((each for each in self.children if each.name == name), None)


def parse(source: str, findings: Findings, fields: HiddenFields | None = None) -> Node:
    """Return a node without a name, whose children are the outermost tags of the source.

    `fields` are the merge fields that are hidden in the source. Their markers of conditions may be
    between two tags, where an `<mj-raw>` may be: each becomes one.
    """
    return _Parser(source, findings, fields or HiddenFields()).run()


def written(node: Node, indent: str = "") -> str:
    """Return the source of a tree, with every attribute quoted and escaped."""
    if not node.name:
        return "".join(written(each, indent) for each in node.children)
    attributes = "".join(
        f' {name}="{html.escape(value)}"' for name, value in node.attributes.items()
    )
    opening = f"{indent}<{node.name}{attributes}"
    if node.children:
        inner = "".join(written(each, f"{indent}  ") for each in node.children)
        return f"{opening}>\n{inner}{indent}</{node.name}>\n"
    if node.text:
        return f"{opening}>{node.text}</{node.name}>\n"
    return f"{opening} />\n"


class _Parser:
    def __init__(self, source: str, findings: Findings, fields: HiddenFields) -> None:
        self._source = source
        self._findings = findings
        self._fields = fields
        self._open: list[Node] = [Node("", 0)]

    def run(self) -> Node:
        source, done = self._source, 0
        while found := _MARKUP.search(source, done):
            self._between(done, found.start())
            if found[2] is None:
                done = self._skip(found)
            elif found[1]:
                done = self._close(found)
            else:
                done = self._begin(found)
            if done < 0:
                break
        else:
            self._between(done, len(source))
            for node in self._open[:0:-1]:
                self._findings.error("mjml-unclosed", f"<{node.name}> is not closed", node.start)
        return self._open[0]

    def _between(self, start: int, end: int) -> None:
        """Look at the text between two tags: only spaces and markers are allowed there."""
        text = self._source[start:end]
        if not (words := text.strip()):
            return
        at = start + text.index(words)
        markers = self._fields.markers_in(words)
        parent = self._open[-1]
        if markers and (not parent.name or _MARKED in mjml_tags.CHILDREN.get(parent.name, ())):
            parent.children += [
                Node(_MARKED, at + place, text=word, text_start=at + place)
                for place, word in markers
            ]
        else:
            shown = self._fields.show_in_text(words).split("\n")[0][:30]
            self._findings.error(
                "mjml-text", f"the text {shown!r} must be in an <mj-text> or a similar tag", at
            )

    def _skip(self, found: re.Match[str]) -> int:
        ends = "-->" if found[0] == "<!--" else ">"
        end = self._source.find(ends, found.end())
        if end < 0:
            self._findings.error("mjml-unclosed", f"{found[0]} is not closed", found.start())
            return -1
        return end + len(ends)

    def _close(self, found: re.Match[str]) -> int:
        name = found[2].lower()
        names = [node.name for node in self._open[1:]]
        if name not in names:
            self._findings.error("mjml-unopened", f"</{name}> closes nothing", found.start())
        else:
            while self._open[-1].name != name:
                node = self._open.pop()
                self._findings.error("mjml-unclosed", f"<{node.name}> is not closed", node.start)
            self._open.pop()
        end = self._source.find(">", found.end())
        return end + 1 if end >= 0 else len(self._source)

    def _begin(self, found: re.Match[str]) -> int:
        name, start = found[2].lower(), found.start()
        rest = _TAG_REST.match(self._source, found.end())
        if rest is None:
            self._findings.error("mjml-unclosed", f"<{name} has no '>'", start)
            return -1
        node = Node(name, start, self._attributes(name, rest[1], rest.start(1)))
        self._open[-1].children.append(node)
        if rest[1].rstrip().endswith("/"):
            return rest.end()
        if name in _RAW and not self._in_defaults():
            return self._content(node, rest.end())
        if len(self._open) > _DEEPEST:
            self._findings.error(
                "mjml-nested", "tags are nested too deeply: use fewer levels", start
            )
            return -1
        self._open.append(node)
        return rest.end()

    def _in_defaults(self) -> bool:
        return any(node.name == mjml_tags.ATTRIBUTES for node in self._open)

    def _content(self, node: Node, start: int) -> int:
        closing = re.compile(rf"</{node.name}\s*>", re.IGNORECASE).search(self._source, start)
        if closing is None:
            self._findings.error("mjml-unclosed", f"<{node.name}> is not closed", node.start)
            return -1
        node.text, node.text_start = self._source[start : closing.start()], start
        return closing.end()

    def _attributes(self, name: str, raw: str, start: int) -> dict[str, str]:
        attributes: dict[str, str] = {}
        for found in _ATTRIBUTE.finditer(raw):
            value = found[2] if found[2] is not None else found[3]
            if value is None:
                self._findings.error(
                    "mjml-attribute",
                    f'the attribute {found[1]} of <{name}> must look like {found[1]}="…"',
                    start + found.start(),
                )
                value = found[4] or ""
            attributes[found[1].lower()] = html.unescape(value)
        return attributes
