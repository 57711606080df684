"""Marks the tracked links of an HTML body, to show where people clicked."""

from __future__ import annotations

import html as html_
from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.mail.tracking.link_tracking import website_links

# Sets each property that a message might set for everything: it must look the same in any design.
_BADGE: Final = (
    '<span style="display:inline-block;margin:0 4px;padding:1px 6px;border-radius:9px;'
    "background:{background};color:{ink};font:600 12px/16px system-ui,sans-serif;"
    "letter-spacing:0;text-transform:none;text-decoration:none;white-space:nowrap;"
    'box-shadow:0 0 0 1px #fff;vertical-align:middle">{text}</span>'
)
# From pale to strong; each is readable with its ink (contrast of at least 4.5).
_HEAT: Final = (
    (0.0, "#e8e4da", "#24221e"),
    (0.01, "#fbe3c0", "#24221e"),
    (0.10, "#f3b66a", "#24221e"),
    (0.25, "#b4552a", "#ffffff"),
    (0.50, "#8f1d24", "#ffffff"),
)


class LinkMark(msgspec.Struct, frozen=True):
    """What is shown at a link: a text, and how hot it is, from 0 to 1."""

    text: str
    heat: float


def with_marks(document: str, base_url: str, marks: Mapping[str, LinkMark]) -> str:
    """Return the body with a badge in each link whose target has a mark."""
    pieces: list[str] = []
    done = 0
    for each in website_links(document, base_url):
        mark = marks.get(each.target)
        if mark is not None and not each.is_area:  # an area of an image map has no content
            pieces += [document[done : each.tag_end], _badge(mark)]
            done = each.tag_end
    return "".join([*pieces, document[done:]])


def _badge(mark: LinkMark) -> str:
    _, background, ink = next(each for each in reversed(_HEAT) if mark.heat >= each[0])
    return _BADGE.format(background=background, ink=ink, text=html_.escape(mark.text))
