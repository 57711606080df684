"""Replaces the links of an HTML body by tracked ones, and adds a pixel and a trap.

A link is tracked by its number in the message's table, so no address contains its target. The trap
has the number 0: nobody sees it, so only programs that open every link follow it.

These links stay as they are: links to anything but websites, links with merge fields, which differ
between recipients, and links to Postroom's own pages for subscribers.
"""

from __future__ import annotations

import html as html_
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from postroom.mail.bodies.html import ATTRIBUTE, HtmlTag, tokens
from postroom.mail.personal.slots import AnySlot, Slot
from postroom.mail.tracking.tracking_tokens import PersonalTokens

TRAP: Final = 0
MOST_LINKS: Final = 1000
"""Distinct links of a message that are tracked; the rest are not."""

_LONGEST: Final = 2000
_WEBSITE: Final = re.compile(r"https?://", re.IGNORECASE)
_MERGED: Final = re.compile(r"\{\{|\{%")
_LINE_ENDS: Final = re.compile(r"[\t\r\n]")  # browsers ignore them in links
_OWN_PAGES: Final = ("/confirm", "/preferences", "/unsubscribe", "/view")


class LinkTracking(msgspec.Struct, frozen=True):
    """How the links of one message are tracked: `numbers` by target. With `personal`, those who
    agreed have other tokens than `token`, which is everyone's."""

    base_url: str
    token: str
    numbers: Mapping[str, int]
    personal: PersonalTokens | None = None

    def link(self, number: int) -> str:
        return f"{self.base_url.rstrip('/')}/r/{self.token}/{number}"

    @property
    def pixel(self) -> str:
        return f"{self.base_url.rstrip('/')}/o/{self.token}.gif"

    @property
    def end(self) -> str:
        """What is added at the end of a body."""
        trap, pixel = html_.escape(self.link(TRAP)), html_.escape(self.pixel)
        return (
            f'<a href="{trap}" style="display:none" aria-hidden="true" tabindex="-1"></a>'
            f'<img src="{pixel}" width="1" height="1" alt="" style="display:block;border:0">\n'
        )


class FoundLink(msgspec.Struct, frozen=True):
    """The value of an `href`, between its quotes, and the end of its start tag."""

    start: int
    end: int
    target: str
    tag_end: int
    is_area: bool


def tracking_of(
    base_url: str, token: str, table: tuple[str, ...], personal: PersonalTokens | None = None
) -> LinkTracking:
    """Return how the links of a message with this table are tracked."""
    numbers = {each: number for number, each in enumerate(table) if each}
    return LinkTracking(base_url, token, numbers, personal)


def with_token_slots(
    segments: Iterable[str | AnySlot], tracking: LinkTracking
) -> Iterator[str | AnySlot]:
    """Yield the segments of a tracked body with a slot instead of each token. No other text can
    contain the token, because it cannot be guessed."""
    for each in segments:
        if not isinstance(each, str):
            yield each
            continue
        first, *others = each.split(tracking.token)
        yield first
        for other in others:
            yield Slot.LINK_TOKEN
            yield other


def link_table(document: str, base_url: str) -> tuple[str, ...]:
    """Return the targets of a body's tracked links, each once. The first place is the trap's."""
    found = dict.fromkeys(each.target for each in website_links(document, base_url))
    return ("", *list(found)[:MOST_LINKS])


def with_tracked_links(document: str, tracking: LinkTracking) -> str:
    """Return the body with tracked links instead of those in the table."""
    pieces: list[str] = []
    done = 0
    for each in website_links(document, tracking.base_url):
        number = tracking.numbers.get(each.target)
        if number is not None:
            pieces += [document[done : each.start], html_.escape(tracking.link(number))]
            done = each.end
    return "".join([*pieces, document[done:]])


def website_links(document: str, base_url: str) -> Iterator[FoundLink]:
    """Yield the links of an HTML body that lead to websites, without those to pages for
    subscribers and those with merge fields."""
    for token in tokens(document, "a", "area"):
        if not isinstance(token, HtmlTag) or token.closes:
            continue
        begin = token.end - len(token.raw)
        for found in ATTRIBUTE.finditer(token.raw):
            if found[1].lower() != "href":
                continue
            group = next((each for each in (2, 3, 4) if found[each] is not None), None)
            if group is not None:
                target = _LINE_ENDS.sub("", html_.unescape(found[group])).strip()
                if _is_tracked(target, base_url):
                    start, end = begin + found.start(group), begin + found.end(group)
                    yield FoundLink(start, end, target, token.end, token.name == "area")
            break  # a second `href` counts for nobody


def _is_tracked(target: str, base_url: str) -> bool:
    if len(target) > _LONGEST or not _WEBSITE.match(target) or _MERGED.search(target):
        return False
    try:
        parts = urlsplit(target)
        own = urlsplit(base_url)
        is_own = (parts.hostname, parts.port) == (own.hostname, own.port)
    except ValueError:  # such as a port above 65535
        return False
    if is_own and parts.path.removeprefix(own.path.rstrip("/")).startswith(_OWN_PAGES):
        return False
    return bool(parts.hostname)
