"""Whole HTML documents. A hand-written fragment becomes one; a document stays as it is."""

from __future__ import annotations

import html
import re
from typing import Final

from postroom.composing.brand import EmailBrand, brand_values
from postroom.mail.html import HtmlTag, tokens

_DOCUMENT_TAGS: Final = ("html", "head", "body")
_DOCTYPE: Final = re.compile(r"\s*(?:<!--.*?-->\s*)*<!doctype\b", re.IGNORECASE | re.DOTALL)
_FRAME: Final = """\
<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>{title}</title>
<style>
@media (prefers-color-scheme: dark) {{
  body, .page {{ background: #131517 !important; color: #e6e4e0 !important; }}
  .page a {{ color: {colour_on_dark} !important; }}
}}
</style>
</head>
<body class="page" style="margin:0;padding:24px 16px;background:#ffffff;color:#26292e;\
font:16px/1.55 {font}">
<div style="max-width:600px;margin:0 auto">
{content}
</div>
</body>
</html>
"""


def is_document(source: str) -> bool:
    """Return whether the HTML is a whole document, or at least has a body of its own."""
    return _DOCTYPE.match(source) is not None or any(
        isinstance(token, HtmlTag) for token in tokens(source, *_DOCUMENT_TAGS)
    )


def framed(content: str, brand: EmailBrand) -> str:
    """Return a document with this content: a language, an encoding, a width for phones, and a
    column that is easy to read."""
    values = brand_values(brand)
    return _FRAME.format(
        language=html.escape(brand.language),
        title=values["name"] or "Message",
        colour_on_dark=values["colour_on_dark"],
        font=values["font"],
        content=content.strip("\n"),
    )
