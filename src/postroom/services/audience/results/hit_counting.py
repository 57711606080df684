"""Turns hits into sums, without the store: who caused them, and what counts only once.

It remembers visitors for half an hour, in memory only: what belongs to one visit counts once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.hits import (
    OPENED,
    VISIT_SECONDS,
    Burst,
    Hit,
    HitBatch,
    HitCause,
    PersonHits,
    bursts_of,
    judged,
)
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.results.engagement import Engagement, HourFigure

_JUDGED_WITH: Final = 120.0  # seconds around a hit: other hits in them affect how it is judged
_MOST_JUDGED: Final = 50  # hits of one visitor: further ones have the same cause
_MOST_REMEMBERED: Final = 200_000  # hits and visits; at 2,000 per second, the last minute and more
_TRAP: Final = 0
_CLICKED: Final = -2

_Who = tuple[MessageRef, str]
_Owner = tuple[MessageRef, SubscriberGuid]
_Visit = tuple[MessageRef, str, SubscriberGuid | None, int]


class _Visitor(msgspec.Struct):
    """What one visitor recently did with one message."""

    hits: list[Hit]
    """The first ones, which decide about all."""
    last_at: float
    cause: HitCause | None = None
    """Judged once for all hits, and again when there are others."""


class _PersonalLinks(msgspec.Struct):
    """What visitors with any address recently did with the links of one recipient."""

    hits: list[Hit]
    last_at: float
    bursts: list[Burst] | None = None
    """Found once for all hits, and again when there are others."""

    def note(self, hit: Hit) -> None:
        self.last_at = max(self.last_at, hit.at)
        if len(self.hits) < _MOST_JUDGED:
            self.hits.append(hit)
            self.bursts = None
        elif hit.number == _TRAP:
            self.hits[-1] = hit
            self.bursts = None

    def in_burst(self, hit: Hit) -> bool:
        if self.bursts is None:
            self.bursts = bursts_of(self.hits)
        return any(each.includes(hit) for each in self.bursts)


class HitCounter:
    def __init__(self) -> None:
        self._visitors: dict[_Who, _Visitor] = {}
        self._personal: dict[_Owner, _PersonalLinks] = {}
        self._visits: dict[_Visit, float] = {}

    def note(self, batch: HitBatch) -> None:
        """Take note of hits that are counted later, because they affect how others are judged."""
        for each in batch.hits:
            if each.guid is not None:
                links = _PersonalLinks([], each.at)
                self._personal.setdefault((each.ref, each.guid), links).note(each)
            visitor = self._visitors.setdefault((each.ref, each.visitor), _Visitor([], each.at))
            visitor.last_at = max(visitor.last_at, each.at)
            if each.number == _TRAP:
                visitor.hits.clear()  # it is enough on its own
            if len(visitor.hits) < _MOST_JUDGED:
                visitor.hits.append(each)
                visitor.cause = None

    def sums(self, batch: HitBatch) -> dict[MessageRef, Engagement]:
        """Return what a batch adds to each message. Hits of one visit count once."""
        sums: dict[MessageRef, Engagement] = {}
        for each in batch.hits:
            if each.number != _TRAP:
                more = self._counted(each)
                sums[each.ref] = sums[each.ref] + more if each.ref in sums else more
            else:
                sums.setdefault(each.ref, Engagement())
        return sums

    def people(self, batch: HitBatch) -> dict[MessageRef, dict[SubscriberGuid, PersonHits]]:
        """Return what the people did whose links a batch followed."""
        found: dict[MessageRef, dict[SubscriberGuid, PersonHits]] = {}
        for each in batch.hits:
            if each.guid is None or each.number == _TRAP:
                continue
            if self._cause(each) is HitCause.PERSON:
                of_message = found.setdefault(each.ref, {})
                known = of_message.get(each.guid, PersonHits())
                of_message[each.guid] = _with_hit(known, each)
        return found

    def forget(self, now: float) -> None:
        """Forget what no longer decides anything."""
        self._visitors = {
            who: visitor
            for who, visitor in self._visitors.items()
            if now - visitor.last_at < _JUDGED_WITH
        }
        for visitor in self._visitors.values():
            recent = [each for each in visitor.hits if now - each.at < _JUDGED_WITH]
            if recent and len(recent) < len(visitor.hits):
                visitor.cause = None
            visitor.hits = recent  # if none are left, the cause stays for later hits
        self._forget_personal(now)
        # Hits are counted a while after they happened.
        kept = VISIT_SECONDS + _JUDGED_WITH
        self._visits = {visit: at for visit, at in self._visits.items() if now - at < kept}
        if _remembered(self._visitors.values()) > _MOST_REMEMBERED:
            self._visitors.clear()
        if _remembered(self._personal.values()) > _MOST_REMEMBERED:
            self._personal.clear()
        if len(self._visits) > _MOST_REMEMBERED:
            self._visits.clear()

    def _forget_personal(self, now: float) -> None:
        self._personal = {
            owner: links
            for owner, links in self._personal.items()
            if now - links.last_at < _JUDGED_WITH
        }
        for links in self._personal.values():
            recent = [each for each in links.hits if now - each.at < _JUDGED_WITH]
            if len(recent) < len(links.hits):
                links.hits, links.bursts = recent, None

    def _cause(self, hit: Hit) -> HitCause:
        links = None if hit.guid is None else self._personal.get((hit.ref, hit.guid))
        if links is not None and links.in_burst(hit):
            return HitCause.PROGRAM
        visitor = self._visitors.get((hit.ref, hit.visitor))
        if visitor is None:
            return judged([hit])
        if visitor.cause is None:
            visitor.cause = judged(visitor.hits or [hit])
        return visitor.cause

    def _counted(self, hit: Hit) -> Engagement:
        cause = self._cause(hit)
        if hit.number == OPENED:
            return self._opened(hit, cause)
        if cause is not HitCause.PERSON:  # image proxies follow no links
            return Engagement(clicked_by_programs=1)
        if not self._is_new(hit, hit.number):
            return Engagement()
        visits = int(self._is_new(hit, _CLICKED))
        hours = {_hour(hit): HourFigure(clicked=visits)} if visits else {}
        return Engagement(clicked=visits, links={hit.number: 1}, hours=hours)

    def _opened(self, hit: Hit, cause: HitCause) -> Engagement:
        match cause:
            case HitCause.PROXY:  # the same few addresses for all users of a provider
                return Engagement(opened_by_proxies=1)
            case HitCause.PROGRAM:
                return Engagement(opened_by_programs=1)
            case HitCause.PERSON:
                if not self._is_new(hit, OPENED):
                    return Engagement()
                return Engagement(opened=1, hours={_hour(hit): HourFigure(opened=1)})

    def _is_new(self, hit: Hit, number: int) -> bool:
        """Return whether this visit has not done this yet, and remember that it has."""
        visit = hit.ref, hit.visitor, hit.guid, number
        before = self._visits.get(visit)
        self._visits[visit] = hit.at
        return before is None or hit.at - before >= VISIT_SECONDS


def _remembered(memories: Iterable[_Visitor | _PersonalLinks]) -> int:
    return sum(max(1, len(each.hits)) for each in memories)


def _with_hit(known: PersonHits, hit: Hit) -> PersonHits:
    at = datetime.fromtimestamp(hit.at, UTC)
    if hit.number == OPENED:
        return msgspec.structs.replace(known, opened_at=min(known.opened_at or at, at))
    first = min(known.clicked_at or at, at)
    return PersonHits(known.opened_at, first, known.links | {hit.number})


def _hour(hit: Hit) -> str:
    return datetime.fromtimestamp(hit.at, UTC).strftime("%Y-%m-%dT%H")
