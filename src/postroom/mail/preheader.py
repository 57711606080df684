"""The preheader: what an inbox shows after the subject. It is hidden in the email itself."""

from __future__ import annotations

import html
import re
from typing import Final

from postroom.mail.html import HtmlTag, tokens

# Invisible characters keep an inbox from showing the first words of the body after it.
_FILLER: Final = "&#847;&zwnj;&nbsp;" * 60
_DOCTYPE: Final = re.compile(r"\s*<!doctype[^>]*>\s*", re.IGNORECASE)
_HIDDEN: Final = (
    '<div style="display:none;max-height:0;overflow:hidden;mso-hide:all">{text}{filler}</div>\n'
)


def with_preheader(document: str, preheader: str) -> str:
    """Return the HTML with the preheader as its first text; unchanged if it is empty."""
    if not preheader:
        return document
    hidden = _HIDDEN.format(text=html.escape(preheader, quote=False), filler=_FILLER)
    place = _position(document)
    return document[:place] + hidden + document[place:]


def _position(document: str) -> int:
    """Return where the visible part begins: after `<body>`, else after `</head>`, else after
    `<html>`, else at the beginning, behind a document type."""
    found = _DOCTYPE.match(document)
    positions = {"": found.end() if found else 0}
    for token in tokens(document, "body", "head", "html"):
        if isinstance(token, HtmlTag) and token.closes == (token.name == "head"):
            positions.setdefault(token.name, token.end)
    return next(positions[name] for name in ("body", "head", "html", "") if name in positions)
