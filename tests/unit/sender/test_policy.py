"""What follows from a transport's answer."""

from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.sender.policy import Attempt, EmailVerdict, Judge, RetryPlan, WhenInDoubt
from postroom.transport.contract import Result, ResultKind

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
PLAN = RetryPlan()


def verdict_on(kind: ResultKind, before: Attempt | None = None, hold: bool = False) -> EmailVerdict:
    when = WhenInDoubt.HOLD if hold else WhenInDoubt.RESEND
    return Judge(NOW, PLAN, when).verdict(Result(kind, "the reply"), before or Attempt())


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (ResultKind.ACCEPTED, EmailOutcome.ACCEPTED),
        (ResultKind.REFUSED, EmailOutcome.REFUSED),
    ],
)
def test_a_final_answer_is_final(kind: ResultKind, outcome: EmailOutcome) -> None:
    verdict = verdict_on(kind)
    assert (verdict.outcome, verdict.reply, verdict.attempt.tries) == (outcome, "the reply", 1)


def test_a_deferred_email_is_tried_again_with_growing_pauses() -> None:
    minutes = [PLAN.pause(tries).total_seconds() / 60 for tries in range(1, 9)]
    assert minutes == [5, 10, 20, 40, 80, 160, 240, 240]
    verdict = verdict_on(ResultKind.DEFERRED, Attempt(1, NOW - timedelta(minutes=5)))
    assert verdict.outcome is EmailOutcome.PENDING
    assert verdict.next_try_at == NOW + timedelta(minutes=10)


def test_a_deferred_email_is_given_up_in_the_end() -> None:
    verdict = verdict_on(ResultKind.DEFERRED, Attempt(30, NOW - timedelta(days=5)))
    assert verdict.outcome is EmailOutcome.REFUSED
    assert "given up after 31 attempts" in verdict.reply
    assert "the reply" in verdict.reply


def test_in_doubt_is_sent_again_with_a_mark_or_held() -> None:
    again = verdict_on(ResultKind.IN_DOUBT)
    assert (again.outcome, again.attempt.was_in_doubt) == (EmailOutcome.PENDING, True)
    assert again.next_try_at == NOW + timedelta(seconds=5)
    held = verdict_on(ResultKind.IN_DOUBT, hold=True)
    assert held.outcome is EmailOutcome.IN_DOUBT


def test_an_email_in_doubt_is_sent_three_times_at_most() -> None:
    judge = Judge(NOW, PLAN, WhenInDoubt.RESEND)
    attempt, pauses, outcomes = Attempt(), [], []
    for _ in range(3):
        verdict = judge.doubted("no reply", attempt)
        attempt = verdict.attempt
        outcomes.append(verdict.outcome)
        pauses.append(verdict.next_try_at and (verdict.next_try_at - NOW).total_seconds())
    assert outcomes == [EmailOutcome.PENDING, EmailOutcome.PENDING, EmailOutcome.IN_DOUBT]
    assert pauses == [5, 30, None]


def test_attempts_with_a_reply_do_not_count_as_copies() -> None:
    before = Attempt(tries=7, first_tried_at=NOW)
    assert verdict_on(ResultKind.IN_DOUBT, before).outcome is EmailOutcome.PENDING


def test_the_mark_of_doubt_stays_whatever_comes_next() -> None:
    before = Attempt(1, NOW, doubts=1)
    for kind in (ResultKind.ACCEPTED, ResultKind.REFUSED, ResultKind.DEFERRED):
        assert verdict_on(kind, before).attempt.was_in_doubt


def test_blame_of_the_sender_is_no_attempt_on_the_recipient() -> None:
    before = Attempt(2, NOW)
    verdict = verdict_on(ResultKind.HELD, before)
    assert verdict.outcome is EmailOutcome.PENDING
    assert verdict.attempt == before


def test_each_email_is_judged_by_what_is_behind_it() -> None:
    judge = Judge(NOW, PLAN, WhenInDoubt.RESEND)
    accepted = Result(ResultKind.ACCEPTED, "ok")
    fresh, tried = Attempt(), Attempt(3, NOW - timedelta(days=1), doubts=1)
    attempts = [judge.verdict(accepted, before).attempt for before in (fresh, fresh, tried, fresh)]
    assert attempts == [
        Attempt(1, NOW),
        Attempt(1, NOW),
        Attempt(4, NOW - timedelta(days=1), doubts=1),
        Attempt(1, NOW),
    ]
