"""Decides what the pending emails of a page wait for, without a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.refs import MessageRef
from postroom.sender.policy import EmailVerdict
from postroom.services.entities import EmailRow
from postroom.services.messages.holds import HoldKey, Holds
from postroom.services.messages.waiting_reasons import WaitingReasons

_PENDING = EmailOutcome.PENDING
_outcome = attrgetter("outcome")


def waiting(
    ref: MessageRef,
    emails: Mapping[Address, EmailRow],
    verdicts: Mapping[Address, EmailVerdict],
    holds: Holds,
    now: datetime,
) -> WaitingReasons:
    """Return what the emails of a page wait for after these verdicts.

    A held email waits only for its hold: its own next attempt is considered again when the hold is
    lifted.
    """
    held_by: set[HoldKey] = set()
    times: list[datetime] = []
    replies: Counter[str] = Counter()
    due = 0
    for address, next_try_at, reply in _pending(emails, verdicts):
        hold = holds.covering(ref, address)
        if hold is not None:
            held_by.add(hold.key)
            replies[hold.reply] += 1
        elif next_try_at is not None and next_try_at > now:
            times.append(next_try_at)
            replies[reply] += 1
        else:
            due += 1
    if not replies:
        return WaitingReasons()
    [(reply, _)] = replies.most_common(1)
    return WaitingReasons(
        deferred=replies.total(),
        next_try_at=min(times, default=None),
        reply=reply,
        held_by=tuple(sorted(held_by)),
        is_held=bool(held_by) and not times and not due,
    )


def is_due(email: EmailRow, retry_at: datetime | None, now: datetime) -> bool:
    """Return whether an email is due, or whether a retry was requested at `retry_at`, after its
    last attempt."""
    if email.NextTryAt is None or email.NextTryAt <= now:
        return True
    return retry_at is not None and (email.TriedAt is None or email.TriedAt < retry_at)


def seconds_until_due(
    emails: Mapping[Address, EmailRow],
    verdicts: Mapping[Address, EmailVerdict],
    wait: WaitingReasons,
    now: datetime,
) -> float:
    """Return in how many seconds the page's work item is needed again."""
    pending = sum(1 for _ in _pending(emails, verdicts))
    if wait.next_try_at is None or pending > wait.deferred:
        return 0.0
    return max(0.0, (wait.next_try_at - now).total_seconds())


def _pending(
    emails: Mapping[Address, EmailRow], verdicts: Mapping[Address, EmailVerdict]
) -> Iterable[tuple[Address, datetime | None, str]]:
    """Yield each pending email with its next attempt and its last reply."""
    if len(verdicts) == len(emails) and _PENDING not in map(_outcome, verdicts.values()):
        return  # the common case
    for address, email in emails.items():
        verdict = verdicts.get(address)
        if verdict is None:
            yield address, email.NextTryAt, email.Reply
        elif verdict.outcome is _PENDING:
            yield address, verdict.next_try_at, verdict.reply
