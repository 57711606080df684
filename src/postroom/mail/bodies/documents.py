"""Whole HTML documents. A hand-written fragment becomes one; a document stays as it is."""

from __future__ import annotations

import html
import re
from typing import Final

from postroom.mail.bodies.html import HtmlTag, tokens

DEFAULT_FONT: Final = "-apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_DOCUMENT_TAGS: Final = ("html", "head", "body")
# Possessive, so that a document that begins with many comments takes no longer than others.
_DOCTYPE: Final = re.compile(
    r"\s*+(?:<!--(?:(?!-->).)*+-->\s*+)*+<!doctype\b", re.IGNORECASE | re.DOTALL
)
_FRAME: Final = """\
<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{dark}</head>
<body class="page" style="margin:0;padding:24px 16px;background:#ffffff;color:#26292e;\
font:16px/1.55 {font}">
<div style="max-width:600px;margin:0 auto">
{content}</div>
</body>
</html>
"""
_DARK: Final = """\
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<style>
@media (prefers-color-scheme: dark) {{
  body, .page {{ background: #131517 !important; color: #e6e4e0 !important; }}
  .page a {{ color: {link_on_dark} !important; }}
}}
</style>
"""


def is_document(source: str) -> bool:
    """Return whether the HTML is a whole document, or at least has a `<body>`."""
    return _DOCTYPE.match(source) is not None or any(
        isinstance(token, HtmlTag) for token in tokens(source, *_DOCUMENT_TAGS)
    )


def framed(
    content: str,
    *,
    language: str,
    title: str,
    font: str = DEFAULT_FONT,
    link_on_dark: str = "",
) -> str:
    """Return a document with this content: a language, an encoding, a width for phones, and a
    column that is easy to read.

    Only with a colour for links on dark surfaces, it is dark in dark mode: what someone wrote by
    hand may set other colours.
    """
    return _FRAME.format(
        language=html.escape(language),
        title=html.escape(title).replace("{", "&#123;"),
        dark=_DARK.format(link_on_dark=link_on_dark) if link_on_dark else "",
        font=html.escape(font),
        content=content if content.endswith("\n") else f"{content}\n",
    )
