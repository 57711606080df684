"""Plain text from HTML, for messages without a text."""

from __future__ import annotations

import re
from typing import Final

from postroom.mail.bodies.html import HtmlText, tokens
from postroom.mail.personal.content_conditions import MARKER
from postroom.mail.personal.merge_fields import FIELD, with_quotes_escaped

_PARAGRAPHS: Final = frozenset(
    {"address", "article", "aside", "blockquote", "dl", "fieldset", "figure", "footer", "form"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "header", "main", "nav", "ol", "p", "pre", "section"}
    | {"table", "ul"}
)
_LINES: Final = frozenset({"body", "dd", "div", "dt", "figcaption", "html", "legend", "li", "tr"})
_UNDERLINES: Final = {"h1": "=", "h2": "-"}
_LONGEST_UNDERLINE = 60
_DEEPEST_INDENT = 8
_CELLS: Final = frozenset({"td", "th"})
_HIDDEN: Final = frozenset({"audio", "canvas", "object", "select", "svg", "video"})
_NOT_WORTH_SHOWING = ("#", "javascript:", "data:", "cid:")
_SPACES = re.compile(r"[ \t\n\r\f\v\u200a\u200b]+")  # the last two only keep a place
_ESCAPED_MARKER = re.compile(r"&(?:#123|#x7b|lbrace|lcub);(?=%|&#37;|&percnt;)", re.IGNORECASE)
_BRACES = re.compile(rf"{FIELD.pattern}|\{{(?=\{{)")


def text_from_html(html: str) -> str:
    """Return paragraphs, headings and lists as lines, links as `text (url)`; keep merge fields."""
    writer = _Writer()
    if "%" in html:
        # Only markers that were written as such stay markers, and none of their rules is a tag.
        html = _ESCAPED_MARKER.sub("{ ", html)
        html = MARKER.sub(lambda found: found[0].replace("<", "&lt;"), html)
    for token in tokens(with_quotes_escaped(html)):
        if isinstance(token, HtmlText):
            writer.data(token.text)
        elif token.closes:
            writer.end(token.name)
        else:
            writer.start(token.name, token.attributes)
    # Braces written as `&#123;&#123;` must not become a merge field.
    fields = {found[1] for found in FIELD.finditer(html)}
    return _BRACES.sub(
        lambda found: found[0] if found[1] in fields else f"{{ {found[0][1:]}", writer.text()
    )


class _Writer:
    """Collects lines. `_gap` is the number of line ends before the next word."""

    def __init__(self) -> None:
        self._written: list[str] = []
        self._gap = 0
        self._space = False
        self._hidden = 0
        self._verbatim = 0
        self._numbers: list[int | None] = []  # per open list: its counter, or None for bullets
        self._bullet = ""  # of an item without text so far
        self._links: list[tuple[str, list[str]]] = []
        self._heading = 0

    def text(self) -> str:
        return "".join(self._written).strip("\n") + "\n" if self._written else ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        self._break_for(tag)
        if tag in ("ul", "ol"):
            self._numbers.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._bullet = self._next_bullet()
        elif tag == "a":
            self._links.append((attributes.get("href", "").strip(), []))
        elif tag == "br":
            self._separate(min(self._gap + 1, 2))
        elif tag == "hr":
            self._separate(2)
            self._write("-" * 20)
            self._separate(2)
        elif tag == "img":
            self._words(attributes.get("alt", ""))
        elif tag == "pre":
            self._verbatim += 1
        elif tag in _UNDERLINES:
            self._heading = len(self._written)

    def end(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag in _UNDERLINES:
            self._underline(_UNDERLINES[tag])
        elif tag in ("ul", "ol") and self._numbers:
            self._numbers.pop()
        elif tag == "pre":
            self._verbatim = max(0, self._verbatim - 1)
        elif tag in _CELLS:
            self._space = True
        if tag != "li":
            self._break_for(tag)

    def data(self, data: str) -> None:
        if self._verbatim:
            self._lines(data)
        else:
            self._words(data)

    def _break_for(self, tag: str) -> None:
        if tag in ("ul", "ol") and self._numbers:
            self._separate(1)  # a list within a list stays together
        elif tag in _PARAGRAPHS:
            self._separate(2)
        elif tag in _LINES:
            self._separate(1)

    def _separate(self, line_ends: int) -> None:
        if not self._bullet:
            self._gap = max(self._gap, line_ends)
        self._space = False

    def _words(self, data: str) -> None:
        text = _SPACES.sub(" ", data)
        words = text.strip(" ")
        if text.startswith(" "):
            self._space = True
        if words:
            self._write(words)
            self._space = text.endswith(" ")

    def _lines(self, data: str) -> None:
        for position, line in enumerate(data.split("\n")):
            if position:
                self._gap += 1
            if line:
                self._write(line)

    def _write(self, text: str) -> None:
        if self._hidden:
            return
        if self._written:
            self._written.append("\n" * self._gap or (" " if self._space else ""))
        if self._links:
            self._links[-1][1].append(f" {text}" if self._space else text)
        self._written += [self._bullet, text]
        self._gap, self._space, self._bullet = 0, False, ""

    def _next_bullet(self) -> str:
        indent = "  " * min(len(self._numbers) - 1, _DEEPEST_INDENT)
        if not self._numbers or self._numbers[-1] is None:
            return f"{indent}- "
        self._numbers[-1] += 1
        return f"{indent}{self._numbers[-1]}. "

    def _end_link(self, url: str, words: list[str]) -> None:
        shown = "".join(words).strip()
        same = url.removeprefix("mailto:").removesuffix("/")
        if not url or url.lower().startswith(_NOT_WORTH_SHOWING) or shown in (url, same):
            return
        self._space = bool(shown)
        self._write(f"({url})" if shown else url)

    def _underline(self, line: str) -> None:
        length = len("".join(self._written[self._heading :]).strip("\n").rpartition("\n")[2])
        self._heading = len(self._written)
        if length:
            self._separate(1)
            self._write(line * min(length, _LONGEST_UNDERLINE))
