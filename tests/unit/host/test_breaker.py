"""The breaker, with the time given."""

from postroom.host.processes.scaling import CRASHES, WITHIN_SECONDS, Breaker, BreakerState

PAUSE = 30.0


def stormy(breaker: Breaker, at: float = 0.0) -> float:
    for number in range(CRASHES):
        breaker.crashed(at + number, "exit status 3")
    return at + CRASHES - 1


def test_five_crashes_in_five_minutes_open_it_and_four_do_not() -> None:
    breaker = Breaker(PAUSE)
    for number in range(CRASHES - 1):
        breaker.crashed(float(number), "exit status 3")
        assert breaker.state(float(number)) is BreakerState.CLOSED
    breaker.crashed(10.0, "exit status 4")
    assert breaker.state(10.0) is BreakerState.OPEN
    assert breaker.reason == "exit status 4"
    assert breaker.opens_for(15.0) == PAUSE - 5


def test_crashes_far_apart_do_not_open_it() -> None:
    breaker = Breaker(PAUSE)
    for number in range(50):
        now = number * (WITHIN_SECONDS / (CRASHES - 1) + 1)
        breaker.crashed(now, "exit status 3")
        assert breaker.state(now) is BreakerState.CLOSED


def test_a_successful_probe_closes_it_and_resets_the_count() -> None:
    breaker = Breaker(PAUSE)
    last = stormy(breaker)
    breaker.worked(last + 1)
    assert breaker.state(last + 1) is BreakerState.OPEN, "who worked was there before"
    probing = last + PAUSE
    assert breaker.state(probing) is BreakerState.PROBING
    breaker.worked(probing)
    assert breaker.state(probing) is BreakerState.CLOSED
    breaker.crashed(probing + 1, "once more")
    assert breaker.state(probing + 1) is BreakerState.CLOSED


def test_a_probe_that_crashes_opens_it_again_for_a_whole_pause() -> None:
    breaker = Breaker(PAUSE)
    probing = stormy(breaker) + PAUSE + 5
    breaker.crashed(probing, "exit status 3")
    assert breaker.state(probing) is BreakerState.OPEN
    assert breaker.opens_for(probing) == PAUSE
    assert breaker.state(probing + PAUSE) is BreakerState.PROBING


def test_one_that_is_not_open_is_not_open_for_any_time() -> None:
    breaker = Breaker(PAUSE)
    assert breaker.opens_for(0.0) == 0.0
    last = stormy(breaker)
    assert breaker.opens_for(last + PAUSE + 1) == 0.0
