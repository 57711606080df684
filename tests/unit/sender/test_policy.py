"""What follows from the result of an attempt."""

from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import UNTRIED, EmailState
from postroom.sender.policy import Judge, RetryPlan, WhenInDoubt
from postroom.transport.contract import Result, ResultKind

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
PLAN = RetryPlan()


def after(kind: ResultKind, before: EmailState = UNTRIED, hold: bool = False) -> EmailState:
    when = WhenInDoubt.HOLD if hold else WhenInDoubt.RESEND
    return Judge(NOW, PLAN, when).attempted(Result(kind, "the reply"), before)


def tried(tries: int, first_tried_at: datetime, unanswered: int = 0) -> EmailState:
    return EmailState(tries=tries, first_tried_at=first_tried_at, unanswered=unanswered)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (ResultKind.ACCEPTED, EmailOutcome.ACCEPTED),
        (ResultKind.REFUSED, EmailOutcome.REFUSED),
    ],
)
def test_a_final_reply_is_final(kind: ResultKind, outcome: EmailOutcome) -> None:
    assert after(kind) == EmailState(outcome, "the reply", tries=1, at=NOW)


def test_a_deferred_email_is_retried_with_growing_pauses() -> None:
    minutes = [PLAN.pause(tries).total_seconds() / 60 for tries in range(1, 9)]
    assert minutes == [5, 10, 20, 40, 80, 160, 240, 240]
    state = after(ResultKind.DEFERRED, tried(1, NOW - timedelta(minutes=5)))
    assert state.outcome is EmailOutcome.PENDING
    assert state.next_try_at == NOW + timedelta(minutes=10)
    assert state.first_tried_at == NOW - timedelta(minutes=5)


def test_a_deferred_email_is_given_up_eventually() -> None:
    state = after(ResultKind.DEFERRED, tried(30, NOW - timedelta(days=5)))
    assert state.outcome is EmailOutcome.REFUSED
    assert "given up after 31 attempts" in state.reply
    assert "the reply" in state.reply


def test_an_email_in_doubt_is_sent_again_with_a_mark_or_held() -> None:
    again = after(ResultKind.IN_DOUBT)
    assert (again.outcome, again.was_in_doubt) == (EmailOutcome.PENDING, True)
    assert again.next_try_at == NOW + timedelta(seconds=5)
    held = after(ResultKind.IN_DOUBT, hold=True)
    assert (held.outcome, held.was_in_doubt) == (EmailOutcome.IN_DOUBT, False)


def test_an_email_in_doubt_is_sent_three_times_at_most() -> None:
    judge = Judge(NOW, PLAN, WhenInDoubt.RESEND)
    state, pauses, outcomes = UNTRIED, [], []
    for _ in range(3):
        state = judge.unanswered("no reply", state)
        outcomes.append(state.outcome)
        pauses.append(state.next_try_at and (state.next_try_at - NOW).total_seconds())
    assert outcomes == [EmailOutcome.PENDING, EmailOutcome.PENDING, EmailOutcome.IN_DOUBT]
    assert pauses == [5, 30, None]


def test_attempts_with_a_reply_do_not_count_as_copies() -> None:
    assert after(ResultKind.IN_DOUBT, tried(7, NOW)).outcome is EmailOutcome.PENDING


def test_an_email_that_was_in_doubt_stays_marked_whatever_comes_next() -> None:
    for kind in (ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.DEFERRED):
        assert after(kind, tried(1, NOW, unanswered=1)).was_in_doubt


def test_a_fault_of_the_sender_is_not_an_attempt_on_the_recipient() -> None:
    state = after(ResultKind.HELD, tried(2, NOW))
    assert state.outcome is EmailOutcome.PENDING
    assert (state.tries, state.first_tried_at, state.reply) == (2, NOW, "the reply")


def test_an_email_that_only_waits_was_not_attempted() -> None:
    later = NOW + timedelta(seconds=3)
    state = Judge(NOW, PLAN, WhenInDoubt.RESEND).waits("limited", later, tried(2, NOW))
    assert (state.tries, state.next_try_at, state.reply) == (2, later, "limited")
