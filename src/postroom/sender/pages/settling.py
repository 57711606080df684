"""Settles a page, without a store: (page, new states of its emails, holds, now) → page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import EmailOutcome, check_outcome
from postroom.domain.messages.page_emails import EmailState
from postroom.mail.mailing import Recipient
from postroom.sender.policy import suppressed
from postroom.services.messages.sending.holds import HoldKey, Holds, WaitingReasons
from postroom.services.messages.sending.page_rows import FREE, Page

CANCELLED = "the message was cancelled"

_PENDING = EmailOutcome.PENDING
_ACCEPTED = EmailOutcome.ACCEPTED


def settled(
    page: Page,
    states: Mapping[int, EmailState],
    holds: Holds,
    now: datetime,
    *,
    parked: bool = False,
) -> Page:
    """Return the page with these emails in their new states, without a claim. `NotNow` if one of
    them cannot change like this."""
    if not page.emails.is_new:
        for place, state in states.items():
            if (before := page.emails.outcome(place)) is not state.outcome:
                check_outcome(before, state.outcome)
    emails = page.emails.settled(states)
    changed = msgspec.structs.replace(page, emails=emails, parked=parked, claim=FREE)
    return msgspec.structs.replace(changed, waiting=_waiting(changed, holds, now))


def with_agreed(
    after: Page,
    before: Page,
    allowed: Mapping[Address, Recipient],
    states: Mapping[int, EmailState],
) -> Page:
    """Return a settled page that counts the emails with personal links that were accepted now."""
    emails = before.emails
    addresses, is_new = emails.addresses, emails.is_new
    more = sum(
        state.outcome is _ACCEPTED
        and (is_new or emails.outcome(place) is not _ACCEPTED)
        and (recipient := allowed.get(addresses[place])) is not None
        and recipient.agreed
        for place, state in states.items()
    )
    return msgspec.structs.replace(after, agreed=after.agreed + more) if more else after


def is_due(state: EmailState, retry_at: datetime | None, now: datetime) -> bool:
    """Return whether an email's time has come, or a retry was requested at `retry_at`, after its
    last attempt."""
    if state.next_try_at is None or state.next_try_at <= now:
        return True
    return retry_at is not None and (state.at is None or state.at < retry_at)


def due_emails(
    page: Page, retry_at: datetime | None, now: datetime
) -> Sequence[tuple[int, Address]]:
    """Return the emails of a page that are due, with their places."""
    emails = page.emails
    if emails.is_new:
        return list(enumerate(emails.addresses))
    return [
        (place, emails.addresses[place])
        for place in emails.pending()
        if is_due(emails.state(place), retry_at, now)
    ]


def cancelled(page: Page, states: Mapping[int, EmailState], now: datetime) -> dict[int, EmailState]:
    """Return the new states with all emails suppressed that are still pending. One that was in
    doubt stays marked."""
    pending = {place: page.emails.state(place) for place in page.emails.pending()}
    return {
        place: suppressed(CANCELLED, state, now) if state.outcome is _PENDING else state
        for place, state in {**pending, **states}.items()
    }


def last_reply(states: dict[int, EmailState]) -> str:
    """Return the mail server's last reply, with which a trace ends."""
    return next(reversed(states.values())).reply if states else ""


def seconds_until_due(page: Page, now: datetime) -> float | None:
    """Return in how many seconds the work item of a settled page is needed again; None if it is
    not: the page is done, parked, or all of its emails wait for a hold."""
    pending = page.counts.pending
    if not pending or page.parked or page.waiting.is_held:
        return None
    if page.waiting.next_try_at is None or pending > page.waiting.deferred:
        return 0.0
    return max(0.0, (page.waiting.next_try_at - now).total_seconds())


def _waiting(page: Page, holds: Holds, now: datetime) -> WaitingReasons:
    """Return what the emails of a page wait for.

    A held email waits only for its hold: its own time counts again when the hold is lifted.
    """
    held_by: set[HoldKey] = set()
    times: list[datetime] = []
    replies: Counter[str] = Counter()
    due = 0
    for place in page.emails.pending():
        state = page.emails.state(place)
        hold = holds.covering(page.ref, page.emails.addresses[place]) if holds else None
        if hold is not None:
            held_by.add(hold.key)
            replies[hold.reply] += 1
        elif state.next_try_at is not None and state.next_try_at > now:
            times.append(state.next_try_at)
            replies[state.reply] += 1
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
