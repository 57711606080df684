"""What a message can be written in."""

from __future__ import annotations

from enum import StrEnum


class MessageFormat(StrEnum):
    """What the author's source is written in."""

    HTML = "html"
    MARKDOWN = "markdown"
    BLOCKS = "blocks"
    MJML = "mjml"
