"""Whether a reader sees anything of a body."""

from __future__ import annotations

import unicodedata
from typing import Final

from postroom.mail.html.documents import visible_spans
from postroom.mail.html.markup import Tag, tokens

# A picture alone is a message. `input` may be one, too (`type=image`), and a form has no other use.
_SEEN: Final = frozenset(
    {"audio", "button", "embed", "iframe", "img", "input", "object", "picture", "svg", "video"}
)
# Control characters, such as line ends; format characters, such as zero-width spaces; spaces.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})


def shows_text(text: str) -> bool:
    """Return whether the text has a visible character."""
    return any(unicodedata.category(each) not in _UNSEEN for each in text)


def shows_html(html: str) -> bool:
    """Return whether the document has text or a picture: `<p>&nbsp;</p>` has neither.

    Styles are not computed, so hidden text counts. Reads up to the first thing that shows.
    """
    return any(
        _shows(token) for start, end in visible_spans(html) for token in tokens(html[start:end])
    )


def _shows(token: str | Tag) -> bool:
    if not isinstance(token, Tag):
        return shows_text(token)
    is_painted = "background" in token.attributes or "url(" in token.attributes.get("style", "")
    return not token.closes and (token.name in _SEEN or is_painted)
