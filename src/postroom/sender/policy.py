"""Decides what happens to an email after a transport's result. Uses no store and no socket."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

import msgspec

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import UNTRIED, EmailState
from postroom.transport.contract import Result, ResultKind

_ACCEPTED = EmailOutcome.ACCEPTED  # looking up a member takes longer than all the rest


class WhenInDoubt(StrEnum):
    RESEND = "resend"
    """Send it again, marked as a possible duplicate."""

    HOLD = "hold"
    """Leave it in doubt until an administrator decides."""


MOST_COPIES = 3
"""After this many attempts in doubt, an administrator has to decide."""

_UNANSWERED_PAUSES = (timedelta(seconds=5), timedelta(seconds=30))
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


def suppressed(reason: str, before: EmailState, now: datetime) -> EmailState:
    """Decide on an email that is not sent: its recipient left, or the message was cancelled."""
    return EmailState(EmailOutcome.SUPPRESSED, reason, before.tries, before.unanswered, now)


class Judge:
    """Decides on attempts that were made together at `now`."""

    def __init__(self, now: datetime, plan: RetryPlan, in_doubt: WhenInDoubt) -> None:
        self.now = now
        self._plan = plan
        self._in_doubt = in_doubt
        self._last: tuple[Result | None, EmailState, EmailState] = (None, UNTRIED, UNTRIED)

    def attempted(self, result: Result, before: EmailState) -> EmailState:
        """Decide on an attempt that ended with `result`."""
        last_result, last_before, last_after = self._last
        if result is last_result and before is last_before:  # as most emails of a page
            return last_after
        after = self._decide(result, before)
        self._last = (result, before, after)
        return after

    def _decide(self, result: Result, before: EmailState) -> EmailState:
        match result.kind:
            case ResultKind.ACCEPTED:
                return self._done(_ACCEPTED, result.reply, before)
            case ResultKind.REFUSED:
                return self._done(EmailOutcome.REFUSED, result.reply, before)
            case ResultKind.DEFERRED:
                return self._deferred(result.reply, before)
            case ResultKind.IN_DOUBT:
                return self.unanswered(result.reply, before)
            case ResultKind.HELD:
                return self.held(result.reply, before)
            case _:
                assert_never(result.kind)

    def waits(self, reason: str, until: datetime, before: EmailState) -> EmailState:
        """Decide on an email that comes back at `until` without an attempt."""
        return msgspec.structs.replace(before, reply=reason, at=self.now, next_try_at=until)

    def held(self, reply: str, before: EmailState) -> EmailState:
        """Decide on an email that failed for a reason other than its recipient: not an attempt."""
        return msgspec.structs.replace(before, reply=reply, next_try_at=None)

    def unanswered(self, reply: str, before: EmailState) -> EmailState:
        """Decide on an email that was handed over without a reply: send it again after a growing
        pause, or leave it in doubt after `MOST_COPIES` such attempts."""
        if self._in_doubt is WhenInDoubt.HOLD:
            return self._done(EmailOutcome.IN_DOUBT, reply, before)
        state = msgspec.structs.replace(before, unanswered=before.unanswered + 1)
        if state.unanswered >= MOST_COPIES:
            return self._done(EmailOutcome.IN_DOUBT, reply, state)
        return self._again(self.now + _UNANSWERED_PAUSES[state.unanswered - 1], reply, state)

    def _deferred(self, reply: str, before: EmailState) -> EmailState:
        tries = before.tries + 1
        next_try = self.now + self._plan.pause(tries)
        if next_try > (before.first_tried_at or self.now) + self._plan.give_up_after:
            given_up = f"given up after {tries} attempts; last reply: {reply}"
            return self._done(EmailOutcome.REFUSED, given_up, before)
        return self._again(next_try, reply, before)

    def _done(self, outcome: EmailOutcome, reply: str, before: EmailState) -> EmailState:
        return EmailState(outcome, reply, before.tries + 1, before.unanswered, self.now)

    def _again(self, next_try: datetime, reply: str, before: EmailState) -> EmailState:
        first = before.first_tried_at or self.now
        tries, unanswered = before.tries + 1, before.unanswered
        return EmailState(EmailOutcome.PENDING, reply, tries, unanswered, self.now, next_try, first)
