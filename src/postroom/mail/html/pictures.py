"""Pictures of a message: on other web servers, or named so that no reader would see them."""

from __future__ import annotations

import html as html_
import re
from typing import Final

from postroom.mail.html.documents import visible_spans

# Up to the next bracket of either kind, so that a document full of beginnings takes no longer.
_IMAGE: Final = re.compile(r"<img\b([^<>]*)>", re.IGNORECASE)
_SOURCE: Final = re.compile(
    r"(?:^|\s)src\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"']+))", re.IGNORECASE
)
# In the mail itself, on the web, or filled in for each reader.
_SEEN: Final = re.compile(r"(https?://|data:|cid:|\{\{)", re.IGNORECASE)


# Attributes of elements, and styles, wherever they are.
_REMOTE: Final = re.compile(
    r"(?:\b(?:src|srcset|background|poster)\s*=\s*[\"']?|\burl\(\s*[\"']?)\s*(?:https?:)?//",
    re.IGNORECASE,
)


def has_remote_pictures(html: str) -> bool:
    """Return whether a reader's mail program would fetch pictures from a web server."""
    return _REMOTE.search(html) is not None


def unseen_pictures(html: str) -> list[str]:
    """What `src` says of such pictures, each once, in their order."""
    found: dict[str, None] = {}
    for start, end in visible_spans(html):
        for image in _IMAGE.finditer(html, start, end):
            source = _SOURCE.search(image[1])
            if source is None:
                continue
            name = html_.unescape(source[1] or source[2] or source[3] or "").strip()
            if name and not _SEEN.match(name):
                found[name] = None
    return list(found)
