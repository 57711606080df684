"""HTML of messages, read by one scanner that knows where in the document each tag is.

The author's document stays as it is, byte for byte, except for what is inserted. No library that we
could depend on reports positions and survives hostile input: docs/adr/0022-html-scanner.md.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

_ANY_TAG: Final = r"[A-Za-z][^\s/<>]*"
_HIDDEN: Final = ("script", "style", "title", "textarea", "template")
# A `>` within quotes does not end a tag. Nothing is tried twice (`++`), or this could be slow.
_REST: Final = re.compile(r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""")
ATTRIBUTE: Final = re.compile(
    r"""([^\s=/"'<>]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?""", re.ASCII
)
_CHARSET: Final = re.compile(
    r"(<meta\b[^>]{0,200}?\bcharset\s*=\s*[\"']?\s*|^\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*[\"'])"
    r"([A-Za-z0-9_:.-]+)",
    re.IGNORECASE,
)
HEAD: Final = 4096
"""Characters in which a document declares its encoding."""

# A picture alone is a message. `input` may be one, too (`type=image`), and a form has no other use.
_VISIBLE_TAGS: Final = frozenset(
    {"audio", "button", "embed", "iframe", "img", "input", "object", "picture", "svg", "video"}
)
# Control characters, such as line ends; format characters, such as zero-width spaces; spaces.
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
# Pictures that a reader sees: inside the mail, on the web, or inserted for each recipient.
_VISIBLE_SOURCE: Final = re.compile(r"(https?://|data:|cid:|\{\{)", re.IGNORECASE)
_REMOTE: Final = re.compile(
    r"(?:\b(?:src|srcset|background|poster)\s*=\s*[\"']?|\burl\(\s*[\"']?)\s*(?:https?:)?//",
    re.IGNORECASE,
)


class HtmlText(msgspec.Struct, frozen=True):
    """Text between tags, with its position in the document. `raw` has its entities."""

    start: int
    end: int
    raw: str

    @property
    def text(self) -> str:
        return html.unescape(self.raw)


class HtmlTag(msgspec.Struct, frozen=True):
    """A tag, with its position in the document."""

    start: int
    end: int
    name: str
    closes: bool
    raw: str

    @property
    def attributes(self) -> dict[str, str]:
        return {
            found[1].lower(): html.unescape(found[2] or found[3] or found[4] or "")
            for found in ATTRIBUTE.finditer(self.raw)
        }


def tokens(document: str, *names: str) -> Iterator[HtmlText | HtmlTag]:
    """Yield text and tags outside of comments, scripts, styles and the like.

    With `names`, other tags count as text, which is much quicker. Every character is read at most
    twice. Nothing is visible after an unclosed comment, script or tag, so the scan ends there; a
    complete document ends with a text, even if it is empty.
    """
    pattern = _opening(names)
    done = 0
    quotes_close = True
    while opening := pattern.search(document, done):
        start, name = opening.start(), (opening[2] or "").lower()
        yield HtmlText(done, start, document[done:start])
        if not name and document.startswith("<!--", start):
            end = document.find("-->", start + 2) + 3  # `<!-->` is a whole comment
            if end < 3:
                return
        else:
            rest = _REST.match(document, opening.end()) if quotes_close and name else None
            if name and rest is None:
                quotes_close = False  # an unpaired quote: from here on every `>` ends a tag
            end = rest.end() if rest else document.find(">", opening.end()) + 1
            if not end:
                return
            if name in _HIDDEN and not opening[1]:
                closing = _closing(name).search(document, opening.end())
                if closing is None:
                    return
                end = closing.end()
            elif name:
                raw = document[opening.end() : end]
                yield HtmlTag(start, end, name, bool(opening[1]), raw)
        done = end
    yield HtmlText(done, len(document), document[done:])


@cache
def _opening(names: tuple[str, ...]) -> re.Pattern[str]:
    if not names:
        return re.compile(rf"<(?:(/?)({_ANY_TAG})|[!?/])")
    wanted = "|".join((*_HIDDEN, *names))
    return re.compile(rf"<(?:(/?)({wanted})\b|!--)", re.IGNORECASE)


@cache
def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}\b[^<>]*>", re.IGNORECASE)


def contains_visibly(document: str, pattern: re.Pattern[str]) -> bool:
    """Return whether the pattern matches in text or tags that a reader's program shows."""
    return any(
        pattern.search(document, token.start, token.end) for token in tokens(document, "body")
    )


def footer_position(document: str) -> int:
    """Return where a footer goes: before the last visible `</body>`, else before the last
    `</html>`, else at the end of what is visible."""
    positions: dict[str, int] = {}
    end = 0
    for token in tokens(document, "body", "html"):
        end = token.end
        if isinstance(token, HtmlTag) and token.closes:
            positions[token.name] = token.start
    return positions.get("body", positions.get("html", end))


def declared_charset(head: bytes) -> str:
    """Return the encoding that a document declares, in lower case, or nothing."""
    found = _CHARSET.search(head[:HEAD].decode("latin-1"))
    return found[2].lower() if found else ""


def declare_utf8(document: str) -> str:
    """Change the declared encoding: every email is sent in UTF-8."""
    return _CHARSET.sub(
        lambda found: f"{found[1]}utf-8" if found.start() < HEAD else found[0], document
    )


def shows_text(text: str) -> bool:
    """Return whether the text has a visible character."""
    return any(unicodedata.category(each) not in _INVISIBLE for each in text)


def shows_html(document: str) -> bool:
    """Return whether the document has text or a picture: `<p>&nbsp;</p>` has neither.

    Styles are not computed, so hidden text counts. Reads up to the first visible thing.
    """
    return any(
        shows_text(token.text) if isinstance(token, HtmlText) else _shows_tag(token)
        for token in tokens(document)
    )


def _shows_tag(tag: HtmlTag) -> bool:
    if tag.closes:
        return False
    attributes = tag.attributes
    is_painted = "background" in attributes or "url(" in attributes.get("style", "")
    return tag.name in _VISIBLE_TAGS or is_painted


def has_remote_pictures(document: str) -> bool:
    """Return whether an email program would fetch pictures from a web server."""
    return _REMOTE.search(document) is not None


def unseen_pictures(document: str) -> list[str]:
    """Return the `src` of pictures that no reader would see, each once, in order."""
    found: dict[str, None] = {}
    for token in tokens(document, "img"):
        if isinstance(token, HtmlTag) and not token.closes:
            source = token.attributes.get("src", "").strip()
            if source and not _VISIBLE_SOURCE.match(source):
                found[source] = None
    return list(found)
