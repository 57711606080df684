"""The preheader: what an inbox shows after the subject. It is hidden in the email itself."""

from __future__ import annotations

import html
import re
from typing import Final

from postroom.mail.bodies.html import HtmlTag, tokens

# Invisible characters keep an inbox from showing the first words of the body after it.
_INVISIBLE: Final = "&#847;&zwnj;&nbsp;"
_FILLER: Final = _INVISIBLE * 60
_INLINE: Final = frozenset({"a", "b", "em", "font", "i", "s", "span", "strong", "u"})
_MOST_SHOWN: Final = 200  # characters; no inbox shows more
_DOCTYPE: Final = re.compile(r"\s*<!doctype[^>]*>\s*", re.IGNORECASE)
_BEGIN: Final = '<div style="display:none;max-height:0;overflow:hidden;mso-hide:all">'


def with_preheader(document: str, preheader: str) -> str:
    """Return the HTML with the preheader as its first text; unchanged if it is empty."""
    if not preheader:
        return document
    hidden = f"{_BEGIN}{html.escape(preheader, quote=False)}{_FILLER}</div>\n"
    place = _position(document)
    return document[:place] + hidden + document[place:]


def shown_preheader(document: str) -> str:
    """Return the preheader of an email's HTML as an inbox shows it; "" if it has none."""
    text, filler, _ = document.partition(_BEGIN)[2].partition(_INVISIBLE)
    return html.unescape(text) if filler else ""


def first_words(document: str) -> str:
    """Return the first visible words of an email's HTML, which an inbox shows if there is no
    preheader."""
    found, length = [], 0
    for token in tokens(document):
        if isinstance(token, HtmlTag):
            found.append("" if token.name in _INLINE else " ")
            continue
        found.append(token.text)
        length += len(token.text.strip())
        if length > _MOST_SHOWN:
            break
    return " ".join("".join(found).split())


def _position(document: str) -> int:
    """Return where the visible part begins: after `<body>`, else after `</head>`, else after
    `<html>`, else at the beginning, after a document type."""
    found = _DOCTYPE.match(document)
    positions = {"": found.end() if found else 0}
    for token in tokens(document, "body", "head", "html"):
        if isinstance(token, HtmlTag) and token.closes == (token.name == "head"):
            positions.setdefault(token.name, token.end)
    return next(positions[name] for name in ("body", "head", "html", "") if name in positions)
