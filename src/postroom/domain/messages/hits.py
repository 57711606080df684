"""Hits on tracked links and pixels, and who caused them: people, proxies or programs.

A visitor is a digest of network address and browser, made with a key that only lives in the memory
of the web process: it tells two visitors of the same minute apart, and nothing else. A hit is
judged about a minute later, because a burst is known only afterwards. Scanners spread their
requests over many addresses, so a personal link also tells which hits belong together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.refs import MessageRef

HIT_QUEUE: Final = "mail/hits"
OPENED: Final = -1
"""The number of the pixel, among those of links."""

VISIT_SECONDS: Final = 1800.0
"""What a visitor does within this time is one visit."""

_TRAP: Final = 0
BURST_SECONDS: Final = 2.0
_BURST_LINKS: Final = 3

# What the image proxies of Gmail and Yahoo call themselves. Apple's has this name and nothing else.
_PROXIES: Final = ("googleimageproxy", "ggpht.com", "yahoomailproxy")
_APPLE: Final = "mozilla/5.0"
# Gateways that check links, and programs that never are a person's browser. Looked for one by one:
# that is much faster than one regular expression for all.
_PROGRAMS: Final = (
    "crawl", "spider", "scan", "preview", "slurp", "curl/", "wget/", "python", "libwww", "java/",
    "okhttp", "go-http", "httpclient", "axios", "node-fetch", "headless", "phantomjs", "barracuda",
    "mimecast", "proofpoint", "safelinks", "trendmicro", "forcepoint", "symantec", "fireeye",
    "cisco", "sophos", "messagelabs", "zscaler", "facebookexternalhit", "whatsapp",
)  # fmt: skip
_BOT: Final = re.compile(r"bot\b")


class HitCause(StrEnum):
    """Who caused a hit."""

    PERSON = "person"
    PROXY = "proxy"
    """An image proxy of a mail provider, which loads pictures whether or not anyone looks."""
    PROGRAM = "program"


class Hit(msgspec.Struct, frozen=True, array_like=True):
    """One request for a tracked link (`number`) or the pixel (`OPENED`), at a time in seconds.
    `guid` is in a personal link: whether its owner still agrees to it is not known yet."""

    ref: MessageRef
    number: int
    at: float
    visitor: str
    agent: HitCause
    guid: SubscriberGuid | None = None


class PersonHits(msgspec.Struct, frozen=True):
    """What one person did with a message: when they first opened it and clicked, and the numbers of
    the links."""

    opened_at: datetime | None = None
    clicked_at: datetime | None = None
    links: frozenset[int] = frozenset()


class HitBatch(msgspec.Struct, frozen=True):
    """Hits that are queued together. They count once, however often the batch arrives."""

    id: str
    hits: tuple[Hit, ...]


def cause_of(agent: str) -> HitCause:
    """Return the cause that a `User-Agent` header names."""
    agent = agent.strip().lower()
    if agent == _APPLE or any(name in agent for name in _PROXIES):
        return HitCause.PROXY
    if not agent or any(name in agent for name in _PROGRAMS) or _BOT.search(agent):
        return HitCause.PROGRAM
    return HitCause.PERSON


def judged(hits: Sequence[Hit]) -> HitCause:
    """Return the cause of these hits of one visitor on one message."""
    if any(each.agent is HitCause.PROGRAM for each in hits) or bursts_of(hits):
        return HitCause.PROGRAM
    is_proxy = any(each.agent is HitCause.PROXY for each in hits)
    return HitCause.PROXY if is_proxy else HitCause.PERSON


class Burst(msgspec.Struct, frozen=True):
    """A period in which a program followed links."""

    start: float
    end: float

    def includes(self, hit: Hit) -> bool:
        """Return whether a hit belongs to it, which includes hits shortly before and after."""
        return self.start - BURST_SECONDS <= hit.at <= self.end + BURST_SECONDS


def bursts_of(hits: Iterable[Hit]) -> list[Burst]:
    """Return when several distinct links were opened faster than people can, or the trap was."""
    bursts: list[Burst] = []
    latest: dict[int, float] = {}  # link → when it was last opened, if that was just before
    clicks = (each for each in hits if each.number != OPENED)
    for each in sorted(clicks, key=lambda each: each.at):
        latest = {link: at for link, at in latest.items() if each.at - at <= BURST_SECONDS}
        latest[each.number] = each.at
        if each.number == _TRAP or len(latest) >= _BURST_LINKS:
            bursts.append(Burst(min(latest.values()), each.at))
    return bursts
