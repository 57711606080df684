"""Decides what a bounce means for the address, without a store: (history, bounce, now) → verdict.

| kind                   | verdict                                                               |
|------------------------|-----------------------------------------------------------------------|
| gone, by its code      | suppressed immediately                                                |
| gone, by its text only | suppressed after two on different days                                |
| full, temporary        | suppressed for 90 days after five in a row on different days          |
| complaint              | suppressed immediately                                                |
| policy, content        | nobody is suppressed: they are about us or about the message          |
| the others             | nothing                                                               |
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, assert_never

import msgspec

from postroom.domain.audience.suppressions import SuppressionReason
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind

GONE_DAYS: Final = 2
SOFT_DAYS: Final = 5
REST: Final = timedelta(days=90)
QUIET: Final = timedelta(days=7)
"""An email that was accepted so long ago without a bounce was delivered: mail servers give up after
four or five days (RFC 5321 4.5.4.1)."""

_SOFT: Final = frozenset({BounceKind.FULL, BounceKind.TEMPORARY})
_GONE: Final = frozenset({BounceKind.GONE})


class PastBounce(msgspec.Struct, frozen=True):
    """An earlier bounce of the same address. `event` identifies it."""

    event: str
    kind: BounceKind
    by_code: bool
    at: datetime


class BounceHistory(msgspec.Struct, frozen=True):
    """What is known about an address. Bounces until `cleared_at` no longer count: its suppression
    was lifted then. `delivered_at` is when the last email was accepted that did not bounce."""

    bounces: Sequence[PastBounce] = ()
    cleared_at: datetime | None = None
    delivered_at: datetime | None = None


class SuppressionVerdict(msgspec.Struct, frozen=True):
    """Why an address is to be suppressed, and until when; None means until someone lifts it."""

    reason: SuppressionReason
    expires_at: datetime | None = None


def decide(history: BounceHistory, bounce: Bounce, now: datetime) -> SuppressionVerdict | None:
    """Return whether the address of a bounce is to be suppressed. The bounce itself may be a part
    of the history."""
    if history.cleared_at is not None and bounce.received_at <= history.cleared_at:
        return None
    match bounce.kind:
        case BounceKind.COMPLAINT:
            return SuppressionVerdict(SuppressionReason.COMPLAINT)
        case BounceKind.GONE:
            if bounce.by_code or len(_days(history, bounce, _GONE)) >= GONE_DAYS:
                return SuppressionVerdict(SuppressionReason.GONE)
            return None
        case BounceKind.FULL | BounceKind.TEMPORARY:
            if soft_days(history, bounce) >= SOFT_DAYS:
                return SuppressionVerdict(SuppressionReason.UNDELIVERED, now + REST)
            return None
        case (
            BounceKind.POLICY
            | BounceKind.CONTENT
            | BounceKind.AUTO_REPLY
            | BounceKind.CHALLENGE
            | BounceKind.UNKNOWN
        ):
            return None
        case _:
            assert_never(bounce.kind)


def soft_days(history: BounceHistory, bounce: Bounce) -> int:
    """Return on how many days email to the address was not delivered, this bounce included."""
    return len(_days(history, bounce, _SOFT))


def _days(history: BounceHistory, bounce: Bounce, kinds: frozenset[BounceKind]) -> set[date]:
    """Return the days, in UTC, on which the address had such bounces, with nothing delivered since,
    and with the day of this one."""
    since = max(filter(None, (history.cleared_at, history.delivered_at)), default=None)
    times = [each.at for each in history.bounces if each.kind in kinds]
    days = {at.astimezone(UTC).date() for at in times if since is None or at > since}
    return days | {bounce.received_at.astimezone(UTC).date()}
