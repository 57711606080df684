"""Emails per second: how many may go when, with a clock that the test holds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.sender.limits.email_rates import (
    DomainRates,
    EmailRate,
    RateAdmission,
    admit,
    available,
    reserve,
)

START = 1_800_000_000.0


class Line:
    """Emails that ask for slots one batch after the other, and when each of them may go."""

    def __init__(self, per_second: float) -> None:
        self.rate = EmailRate(per_second)
        self.used_up = 0.0
        self.went: list[float] = []

    def ask(self, count: int, now: float) -> float:
        slots = reserve(self.rate, self.used_up, count, now)
        self.used_up = slots.used_up
        self.went += [slots.at] * count
        return slots.at - now


def test_a_seconds_worth_is_sent_at_once_and_then_one_per_interval() -> None:
    line = Line(10)
    waits = [line.ask(1, START) for _ in range(13)]
    assert waits == pytest.approx([0.0] * 10 + [0.1, 0.2, 0.3], abs=1e-5)


def test_a_batch_is_sent_when_its_last_email_may_be() -> None:
    line = Line(10)
    assert line.ask(10, START) == 0.0
    assert line.ask(5, START) == pytest.approx(0.5)
    assert line.ask(20, START) == pytest.approx(2.5)


def test_idle_time_saves_at_most_one_second_of_the_rate() -> None:
    line = Line(10)
    line.ask(10, START)
    assert line.ask(11, START + 1000) == pytest.approx(0.1)


def test_a_limit_below_one_per_second_admits_one_at_a_time() -> None:
    line = Line(0.5)
    assert [line.ask(1, START) for _ in range(3)] == pytest.approx([0.0, 2.0, 4.0])


@pytest.mark.parametrize("ahead", [3600, 10**8])
def test_a_clock_that_was_ahead_does_not_stop_the_mail(ahead: float) -> None:
    assert reserve(EmailRate(10), START + ahead, 1, START).at == START


@given(
    per_second=st.floats(2, 5000),
    batches=st.lists(st.tuples(st.integers(1, 100), st.floats(0, 3)), min_size=1, max_size=40),
)
def test_no_span_of_time_gets_more_than_its_share_and_a_burst(
    per_second: float, batches: list[tuple[int, float]]
) -> None:
    line = Line(per_second)
    now = START
    for count, pause in batches:
        now += pause
        line.ask(count, now)
    went = line.went
    largest = max(count for count, _ in batches)
    step = max(1, len(went) // 50)
    for first in range(0, len(went), step):
        for last in range(first, len(went), step):
            most = per_second * (went[last] - went[first]) + max(1.0, per_second)
            # The first ones of a batch waited for its last.
            assert last - first + 1 <= most + largest
    assert all(earlier <= later for earlier, later in pairwise(line.went))


@given(per_second=st.floats(0.05, 5000), used=st.floats(-10, 10), wait=st.floats(0, 5))
def test_what_is_available_can_be_reserved_in_time(
    per_second: float, used: float, wait: float
) -> None:
    rate, deadline = EmailRate(per_second), START + wait
    count = available(rate, START + used, START, deadline)
    if count:
        assert reserve(rate, START + used, count, START).at <= deadline + 1e-5
    assert reserve(rate, START + used, count + 1, START).at > deadline - 1e-5


# -- by domain ------------------------------------------------------------------------------------


def ask(
    per_second: float, count: int, before: RateAdmission | None = None, now: float = START
) -> RateAdmission:
    used_up, queue_end = (before.used_up, before.queue_end) if before else (0.0, 0.0)
    return admit(EmailRate(per_second), used_up, queue_end, count, now, now)


def test_those_who_cannot_go_now_come_back_in_small_groups_each_at_its_time() -> None:
    admission = ask(10, 24)
    assert (admission.count, admission.at) == (10, START)
    assert [count for count, _ in admission.later] == [5, 5, 4]
    assert [at - START for _, at in admission.later] == pytest.approx([1.0, 1.5, 2.0])


def test_the_next_page_comes_back_behind_the_one_before() -> None:
    first = ask(10, 20)
    second = ask(10, 10, first)
    assert second.count == 0
    assert [at - START for _, at in second.later] == pytest.approx([2.0, 2.5])
    assert second.used_up == first.used_up, "who only waits has used nothing up"


def test_each_group_finds_its_slots_when_it_comes_back() -> None:
    admission = ask(10, 100)
    went = admission.count
    for count, at in admission.later:
        back = ask(10, count, admission, at + 0.05)
        assert back.count == count
        admission = RateAdmission(back.count, back.at, back.used_up, admission.queue_end)
        went += back.count
    assert went == 100


def test_slots_shortly_ahead_can_be_waited_for() -> None:
    before = ask(1, 1)
    admission = admit(EmailRate(1), before.used_up, 0.0, 2, START + 0.4, START + 1.4)
    assert admission.count == 1
    assert admission.at == pytest.approx(START + 1.0)


def test_a_queue_in_which_nobody_is_left_is_forgotten() -> None:
    cancelled = ask(1, 600)
    assert cancelled.queue_end > START + 500
    fresh = ask(1, 2, cancelled, START + 60)
    assert fresh.count == 1
    assert [at - START for _, at in fresh.later] == pytest.approx([61.0])


def test_no_email_comes_back_later_than_in_a_quarter_of_an_hour() -> None:
    admission: RateAdmission | None = None
    for _ in range(50):
        admission = ask(1, 100, admission)
        assert all(START < at <= START + 900 for _, at in admission.later)
        assert sum(count for count, _ in admission.later) + admission.count == 100


def test_a_domain_has_its_own_limit_or_that_of_the_others() -> None:
    rates = DomainRates({"gmail.com": EmailRate(20)}, EmailRate(5))
    assert (rates.of("gmail.com"), rates.of("example.org")) == (EmailRate(20), EmailRate(5))
    assert DomainRates({"gmail.com": EmailRate(20)}).of("example.org") is None
