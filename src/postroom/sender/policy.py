"""Decides what follows from a transport's result, without a store or a socket."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

import msgspec

from postroom.domain.messages.emails import EmailOutcome
from postroom.transport.contract import Result, ResultKind

_ACCEPTED = EmailOutcome.ACCEPTED  # looking up a member takes longer than all the rest


class WhenInDoubt(StrEnum):
    RESEND = "resend"
    """Send it again, marked as a possible duplicate."""

    HOLD = "hold"
    """Leave it in doubt until an administrator decides."""


MOST_COPIES = 3
"""After so many attempts in doubt, an administrator has to decide."""

_DOUBT_PAUSES = (timedelta(seconds=5), timedelta(seconds=30))
"""Pauses after the first and second attempt in doubt. Short, because usually a sender was killed
and the mail server works; growing, in case the server hangs up."""


class RetryPlan(msgspec.Struct, frozen=True):
    """Deferred emails are tried again after 5, 10, 20 … minutes, at most 4 hours, for 5 days."""

    first: timedelta = timedelta(minutes=5)
    longest: timedelta = timedelta(hours=4)
    give_up_after: timedelta = timedelta(days=5)

    def pause(self, tries: int) -> timedelta:
        """Return the pause after the `tries`-th attempt."""
        return min(self.first * float(1 << min(tries - 1, 30)), self.longest)


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """The past attempts of an email. `doubts` counts those that were handed over without a reply:
    each may have delivered a copy."""

    tries: int = 0
    first_tried_at: datetime | None = None
    doubts: int = 0

    @property
    def was_in_doubt(self) -> bool:
        return self.doubts > 0


class EmailVerdict(msgspec.Struct, frozen=True, gc=False):
    """The state of an email after an attempt. A pending one is tried again at `next_try_at`."""

    outcome: EmailOutcome
    reply: str
    attempt: Attempt
    next_try_at: datetime | None = None


class Judge:
    """Decides on attempts that were made together at `now`."""

    def __init__(self, now: datetime, plan: RetryPlan, in_doubt: WhenInDoubt) -> None:
        self._now = now
        self._plan = plan
        self._in_doubt = in_doubt
        # Most emails of a page have the same past: none.
        self._before: Attempt | None = None
        self._after = Attempt()

    def verdict(self, result: Result, before: Attempt) -> EmailVerdict:
        """Decide on an attempt that ended with `result`."""
        attempt = self._attempted(before)
        match result.kind:
            case ResultKind.ACCEPTED:
                return EmailVerdict(_ACCEPTED, result.reply, attempt)
            case ResultKind.REFUSED:
                return EmailVerdict(EmailOutcome.REFUSED, result.reply, attempt)
            case ResultKind.DEFERRED:
                return self._deferred(result.reply, attempt)
            case ResultKind.IN_DOUBT:
                return self.doubted(result.reply, before)
            case ResultKind.HELD:
                return self.held(result.reply, before)
            case _:
                assert_never(result.kind)

    def held(self, reply: str, before: Attempt) -> EmailVerdict:
        """Decide on an email that failed for a reason other than its recipient: not an attempt."""
        return EmailVerdict(EmailOutcome.PENDING, reply, before)

    def doubted(self, reply: str, before: Attempt) -> EmailVerdict:
        """Decide on an email that was handed over without a reply: send it again after a growing
        pause, or leave it in doubt after `MOST_COPIES` such attempts."""
        attempt = self._attempted(before)
        if self._in_doubt is WhenInDoubt.HOLD:
            return EmailVerdict(EmailOutcome.IN_DOUBT, reply, attempt)
        marked = msgspec.structs.replace(attempt, doubts=attempt.doubts + 1)
        if marked.doubts >= MOST_COPIES:
            return EmailVerdict(EmailOutcome.IN_DOUBT, reply, marked)
        next_try = self._now + _DOUBT_PAUSES[marked.doubts - 1]
        return EmailVerdict(EmailOutcome.PENDING, reply, marked, next_try)

    def _attempted(self, before: Attempt) -> Attempt:
        if before is not self._before:
            first = before.first_tried_at or self._now
            self._before = before
            self._after = Attempt(before.tries + 1, first, before.doubts)
        return self._after

    def _deferred(self, reply: str, attempt: Attempt) -> EmailVerdict:
        first = attempt.first_tried_at or self._now
        next_try = self._now + self._plan.pause(attempt.tries)
        if next_try > first + self._plan.give_up_after:
            given_up = f"given up after {attempt.tries} attempts; last reply: {reply}"
            return EmailVerdict(EmailOutcome.REFUSED, given_up, attempt)
        return EmailVerdict(EmailOutcome.PENDING, reply, attempt, next_try)
