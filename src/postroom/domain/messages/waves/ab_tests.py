"""A/B tests: which variant of a message a share of its audience responds to best.

Everything that affects the life of a test is here. Until it is started, it can be changed:

    draft → starting → running → decided → done
                └─────────┴─────────┴→ cancelling → cancelled
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.errors import Invalid, NotNow
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.buckets import BUCKETS, BucketRange

LETTERS: Final = "ABCD"
MOST_VARIANTS: Final = len(LETTERS)
SHARE, LOWEST_SHARE, HIGHEST_SHARE = 20, 2, 90
"""Percent of the audience, all variants together."""
WAIT_MINUTES, LONGEST_WAIT = 4 * 60, 7 * 24 * 60
CONFIDENCE: Final = 0.95
"""Below, the better numbers of a variant may be luck."""
_FEWEST_EXPECTED: Final = 5
"""Hits, and people without one, to be expected in each group: with fewer, the normal distribution
does not approximate their number (Cochran, 1954)."""


class AbState(StrEnum):
    DRAFT = "draft"
    STARTING = "starting"
    RUNNING = "running"
    DECIDED = "decided"
    DONE = "done"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


ENDED: Final = frozenset({AbState.DONE, AbState.CANCELLED})


class Criterion(StrEnum):
    """What decides: the most clicks of people, or the fewest unsubscribes."""

    CLICKS = "clicks"
    UNSUBSCRIBES = "unsubscribes"


class AbTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A test, known by the reference of its first variant.

    `rest` is the reference of the message to the rest of the audience, reserved when the test is
    started, and `source` the variant whose content it has: the winner, if there is one. `sent_at`
    is when all emails of the variants had been tried, if some of them are tried again. `winner` is
    empty if no variant was significantly better. `chosen_by` is the person who decided instead of
    the numbers. `confidence` is that of the numbers when it was decided, between 0 and 1. `problem`
    says why it does not continue.
    """

    key: MessageRef
    variants: tuple[MessageRef, ...]
    created_at: datetime
    created_by: str
    state: AbState = AbState.DRAFT
    share: int = SHARE
    wait_minutes: int = WAIT_MINUTES
    scheduled_at: datetime | None = None
    rest: MessageRef = MessageRef("")
    source: MessageRef = MessageRef("")
    sent_at: datetime | None = None
    winner: MessageRef = MessageRef("")
    chosen_by: str = ""
    criterion: Criterion | None = None
    confidence: float = 0.0
    decided_at: datetime | None = None
    problem: str = ""
    etag: str = ""

    def letter(self, ref: MessageRef) -> str:
        return LETTERS[self.variants.index(ref)]


class VariantFigures(msgspec.Struct, frozen=True):
    """What is known about a variant; `clicks` is None if clicks are not measured."""

    accepted: int = 0
    clicks: int | None = None
    unsubscribed: int = 0


class AbVerdict(msgspec.Struct, frozen=True):
    """Which variant has the best numbers, by its position, and how certain that is. It is the
    winner only if the confidence is high enough."""

    criterion: Criterion
    best: int = 0
    confidence: float = 0.0

    @property
    def winner(self) -> int | None:
        return self.best if self.confidence >= CONFIDENCE else None


def ranges(share: int, count: int) -> list[BucketRange]:
    """Return the buckets of each variant: equal and disjoint parts of a share in percent."""
    each = BUCKETS * share // 100 // count
    return [BucketRange(number * each, (number + 1) * each) for number in range(count)]


def parse_share(share: int) -> int:
    if not LOWEST_SHARE <= share <= HIGHEST_SHARE:
        bounds = f"between {LOWEST_SHARE} and {HIGHEST_SHARE} percent"
        raise Invalid("share", f"must be {bounds}, not {share}")
    return share


def parse_wait(minutes: int) -> int:
    if not 1 <= minutes <= LONGEST_WAIT:
        days = LONGEST_WAIT // (24 * 60)
        raise Invalid("wait_minutes", f"must be between 1 minute and {days} days, not {minutes}")
    return minutes


def check_state(test: AbTest, *allowed: AbState) -> None:
    """Raise `NotNow` unless the test is in one of these states."""
    if test.state not in allowed:
        raise NotNow(
            f"the A/B test of the message {test.key} is {test.state}:"
            f" this is possible while it is {' or '.join(allowed)}"
        )


def is_planned(message: Message) -> bool:
    """Return whether the recipients of a variant are final."""
    status = message.status
    if status is MessageStatus.PAUSED:
        status = message.paused_from or MessageStatus.PENDING
    return status is MessageStatus.PROCESSING or status in FINAL


# -- statistics -----------------------------------------------------------------------------------


def judged(figures: Sequence[VariantFigures]) -> AbVerdict:
    """Return which variant is best, by people's clicks if all variants measure them.

    The confidence is that of the least certain comparison with another variant. The more pairs
    there are, the more often one of them differs by chance: this is corrected for (Bonferroni).
    """
    by_clicks = all(each.clicks is not None for each in figures)
    hits = [(each.clicks or 0) if by_clicks else each.unsubscribed for each in figures]
    hits = [min(hit, each.accepted) for hit, each in zip(hits, figures, strict=True)]
    rates = [hit / max(1, each.accepted) for hit, each in zip(hits, figures, strict=True)]
    best = rates.index(max(rates) if by_clicks else min(rates))
    chances = [
        chance_of(hits[best], figures[best].accepted, hits[other], figures[other].accepted)
        for other in range(len(figures))
        if other != best
    ]
    pairs = len(figures) * (len(figures) - 1) // 2
    confidence = 1 - min(1.0, max(chances, default=1.0) * pairs)
    return AbVerdict(Criterion.CLICKS if by_clicks else Criterion.UNSUBSCRIBES, best, confidence)


def chance_of(hits: int, people: int, other_hits: int, other_people: int) -> float:
    """Return how likely two groups differ at least this much by chance: the two-sided p-value of
    the z-test of two proportions. It is 1 if there are too few people to say."""
    if not people or not other_people:
        return 1.0
    pooled = (hits + other_hits) / (people + other_people)
    if min(pooled, 1 - pooled) * min(people, other_people) < _FEWEST_EXPECTED:
        return 1.0
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / people + 1 / other_people))
    z = (hits / people - other_hits / other_people) / deviation
    return math.erfc(abs(z) / math.sqrt(2))
