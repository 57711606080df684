"""How many processes are wanted, as a function."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.host.processes.scaling import (
    MOST_PREFETCHED,
    PAGES_PER_PROCESS,
    Demand,
    HandlingTime,
    prefetch_limit,
    wanted,
    wanted_serving,
)


def want(demand: Demand, running: int = 0, concurrency: int = 1, most: int = 4) -> int:
    return wanted(demand, running=running, concurrency=concurrency, least=0, most=most)


def test_nothing_to_do_needs_nobody_and_one_message_needs_one() -> None:
    assert want(Demand()) == 0
    assert want(Demand(ready=1)) == 1


def test_a_burst_of_unknown_messages_starts_one_for_each_up_to_the_limit() -> None:
    assert want(Demand(ready=3), running=1) == 3
    assert want(Demand(ready=1000), running=1) == 4
    assert want(Demand(ready=20), running=1, concurrency=10) == 2


def test_what_one_process_does_within_a_second_needs_no_second_one() -> None:
    assert want(Demand(ready=500, each=0.001), running=1) == 1
    assert want(Demand(ready=1500, each=0.001), running=1) == 2
    assert want(Demand(ready=10, in_progress=1, each=1.0), running=1, most=100) == 11


def test_messages_that_wait_too_long_get_a_process_whatever_the_estimate_says() -> None:
    assert want(Demand(ready=100, oldest=10.0, each=0.001), running=1) == 2
    assert want(Demand(ready=100, oldest=10.0, each=0.001), running=4) == 4


def test_no_process_is_started_without_a_message_for_it() -> None:
    assert want(Demand(ready=1, in_progress=1, oldest=60.0, each=5.0), running=1) == 2
    assert want(Demand(ready=0, in_progress=1, oldest=0.0, each=5.0), running=1) == 1


@given(
    st.builds(
        Demand,
        st.integers(0, 10_000),
        st.floats(0, 1000),
        st.integers(0, 1000),
        st.none() | st.floats(0, 100),
    ),
    st.integers(0, 50),
    st.integers(1, 100),
    st.integers(0, 10),
    st.integers(0, 40),
)
def test_it_is_always_within_the_limits(
    demand: Demand, running: int, concurrency: int, least: int, more: int
) -> None:
    most = max(1, least + more)
    found = wanted(demand, running=running, concurrency=concurrency, least=least, most=most)
    assert least <= found <= most
    if demand.ready or demand.in_progress:
        assert found >= min(running, most), "scaling down is for the idle timeout"
        assert found >= 1
    assert least <= wanted_serving(demand, running=running, least=least, most=most) <= most


def test_servers_begin_with_one_and_get_help_while_they_fall_behind() -> None:
    def serving(demand: Demand, running: int) -> int:
        return wanted_serving(demand, running=running, least=0, most=4)

    assert serving(Demand(), 0) == 0
    assert serving(Demand(ready=1), 0) == 1
    assert serving(Demand(ready=PAGES_PER_PROCESS * 100), 0) == 1, (
        "it may be over before a second is up"
    )
    assert serving(Demand(ready=PAGES_PER_PROCESS * 100), 1) == 1, "it has only just arrived"
    assert serving(Demand(ready=PAGES_PER_PROCESS * 100, oldest=5.0), 1) == 2
    assert serving(Demand(ready=PAGES_PER_PROCESS * 2, oldest=5.0), 3) == 3
    assert serving(Demand(), 3) == 3, "idle ones stop on their own"


def test_only_quick_handlers_have_messages_on_their_way() -> None:
    assert prefetch_limit(None) == 0
    assert prefetch_limit(1.0) == 0
    assert prefetch_limit(0.015) == 3
    assert prefetch_limit(0.0) == MOST_PREFETCHED


def paced(*seconds: float) -> float:
    pace = HandlingTime()
    for each in seconds:
        pace.finished(each)
    assert pace.each is not None
    return pace.each


def test_the_pace_follows_slowly_downwards_and_at_once_upwards() -> None:
    assert HandlingTime().each is None
    assert paced(0.001) == 0.001
    assert paced(0.001, 1.0) == 1.0
    assert paced(0.001, 1.0, 0.001) > 0.5
    assert paced(0.001, 1.0, *[0.001] * 50) < 0.01
