"""What is done to an HTML document before it is mailed, without a full parser: an author's document
stays as it is, byte for byte, but for what is put in."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPENING = re.compile(r"<!--|<(script|style|title|textarea|template)\b", re.IGNORECASE)
_END_OF_BODY = re.compile(r"</(body|html)\s*>", re.IGNORECASE)
_CHARSET = re.compile(
    r"(<meta\b[^>]{0,200}?\bcharset\s*=\s*[\"']?\s*|^\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*[\"'])"
    r"([A-Za-z0-9_:.-]+)",
    re.IGNORECASE,
)
_HEAD = 4096  # further down it is no declaration


def visible_spans(html: str) -> Iterator[tuple[int, int]]:
    """The stretches outside comments, scripts, styles and the like.

    Each closing tag is searched only once and forward, so that a document full of unclosed
    beginnings takes no longer than another. Nothing is visible behind an unclosed one.
    """
    done = 0
    while opening := _OPENING.search(html, done):
        yield done, opening.start()
        end = _end_of_hidden(html, opening)
        if end is None:
            return
        done = end
    yield done, len(html)


def _end_of_hidden(html: str, opening: re.Match[str]) -> int | None:
    if opening[1] is None:
        end = html.find("-->", opening.start() + 2)  # `<!-->` is a whole comment
        return None if end < 0 else end + 3
    closing = re.compile(rf"</{opening[1]}\b[^<>]*>", re.IGNORECASE)
    found = closing.search(html, opening.end())
    return found.end() if found else None


def place_of_footer(html: str) -> int:
    """Before the last visible `</body>`, else before the last `</html>`, else at the end of what
    is visible."""
    places: dict[str, int] = {}
    end = len(html)
    for start, end in visible_spans(html):
        for found in _END_OF_BODY.finditer(html, start, end):
            places[found[1].lower()] = found.start()
    return places.get("body", places.get("html", end))


def declare_utf8(html: str) -> str:
    """Every mail goes out in UTF-8: a document that declares another encoding would be misread."""
    return _CHARSET.sub(
        lambda found: f"{found[1]}utf-8" if found.start() < _HEAD else found[0], html
    )
