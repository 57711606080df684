"""What a bounce means for its address: one table of histories and verdicts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.audience.suppressions import SuppressionReason
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.services.audience.suppression.bounce_policy import (
    REST,
    BounceHistory,
    PastBounce,
    SuppressionVerdict,
    decide,
)

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
GONE, FULL, TEMPORARY = BounceKind.GONE, BounceKind.FULL, BounceKind.TEMPORARY
DEAD = SuppressionVerdict(SuppressionReason.GONE)
RESTING = SuppressionVerdict(SuppressionReason.UNDELIVERED, NOW + REST)


def bounce(kind: BounceKind, by_code: bool = False) -> Bounce:
    return Bounce(kind, "now", BounceSource.SMTP, NOW, by_code=by_code)


def history(kind: BounceKind, *days_ago: float) -> BounceHistory:
    return BounceHistory(
        [PastBounce(str(each), kind, False, NOW - timedelta(days=each)) for each in days_ago]
    )


NOTHING = BounceHistory()


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        (NOTHING, bounce(GONE, by_code=True), DEAD),
        (NOTHING, bounce(GONE), None),
        (history(GONE, 0.1), bounce(GONE), None),
        (history(GONE, 1), bounce(GONE), DEAD),
        (history(FULL, 1, 2, 3), bounce(GONE), None),
        (NOTHING, bounce(BounceKind.COMPLAINT), SuppressionVerdict(SuppressionReason.COMPLAINT)),
        (history(FULL, 1, 2, 3), bounce(FULL), None),
        (history(FULL, 1, 2, 3, 4), bounce(FULL), RESTING),
        (history(FULL, 1, 2, 3, 4), bounce(TEMPORARY), RESTING),
        (history(TEMPORARY, 0.1, 0.2, 1, 1.1, 2), bounce(FULL), None),
        (history(GONE, 1, 2, 3, 4), bounce(FULL), None),
        (history(FULL, 7, 14, 21, 28), bounce(FULL), RESTING),
        *(
            (history(kind, 1, 2, 3, 4, 5, 6), bounce(kind), None)
            for kind in (
                BounceKind.POLICY,
                BounceKind.CONTENT,
                BounceKind.AUTO_REPLY,
                BounceKind.CHALLENGE,
                BounceKind.UNKNOWN,
            )
        ),
    ],
)
def test_the_table_of_verdicts(
    before: BounceHistory, now: Bounce, verdict: SuppressionVerdict | None
) -> None:
    assert decide(before, now, NOW) == verdict


def test_a_delivery_without_a_bounce_starts_the_count_again() -> None:
    before = history(FULL, 7, 14, 21, 28)
    delivered = BounceHistory(before.bounces, delivered_at=NOW - timedelta(days=10))
    assert decide(delivered, bounce(FULL), NOW) is None


def test_bounces_from_before_a_suppression_was_lifted_no_longer_count() -> None:
    before = history(GONE, 1)
    lifted = BounceHistory(before.bounces, cleared_at=NOW - timedelta(hours=1))
    assert decide(lifted, bounce(GONE), NOW) is None
    late = BounceHistory(cleared_at=NOW + timedelta(hours=1))
    assert decide(late, bounce(GONE, by_code=True), NOW) is None
