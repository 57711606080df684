"""Rates that follow what a provider accepts, against a model of a provider with a limit."""

import math

import pytest

from postroom.domain.messages.delivery.adaptive_rates import (
    FIRST_RATE,
    FLOOR,
    AdaptiveRate,
    cleaned,
    throttled,
)

START = 1_800_000_000.0
MINUTE = 60.0
DAY = 86_400.0


def minutes_of(rate: AdaptiveRate, limit: float, minutes: int) -> list[AdaptiveRate]:
    """Return the rate at the end of each minute at a provider that throttles above `limit`."""
    rates = []
    for minute in range(1, minutes + 1):
        now = START + minute * MINUTE
        rate = throttled(rate, limit, now) if rate.per_second > limit else cleaned(rate, now)
        rates.append(rate)
    return rates


@pytest.mark.parametrize("measured", [30.0, 33.0, 400.0, 5_000.0])
@pytest.mark.parametrize("limit", [30.0, 180.0])
def test_the_rate_settles_within_a_fifth_of_the_limit(limit: float, measured: float) -> None:
    first = throttled(None, measured, START)
    rates = [each.per_second for each in minutes_of(first, limit, 1_440)]
    settled = rates[240:]
    within = [each for each in settled if 0.8 * limit <= each <= 1.2 * limit]
    assert len(within) > 0.85 * len(settled)
    assert sum(settled) / len(settled) == pytest.approx(limit, rel=0.2)
    assert max(settled) <= 1.06 * limit


def test_a_throttled_rate_is_halved_and_returns_to_just_below_in_half_steps() -> None:
    rate = throttled(None, 40.0, START)
    assert (rate.per_second, rate.goal) == (20.0, 36.0)
    steps = [each.per_second for each in minutes_of(rate, math.inf, 4)]
    assert steps == pytest.approx([28.0, 32.0, 34.0, 35.7])


def test_emails_in_progress_when_a_rate_is_halved_do_not_halve_it_again() -> None:
    rate = throttled(None, 40.0, START)
    assert throttled(rate, 40.0, START + 1) == rate
    assert throttled(rate, 40.0, START + 4).per_second == 10.0


def test_a_clean_time_of_less_than_a_minute_changes_nothing() -> None:
    rate = throttled(None, 40.0, START)
    assert cleaned(rate, START + 59) == rate


def test_a_rate_stays_between_its_floor_and_its_ceiling() -> None:
    rate = throttled(None, 0.0, START)
    assert rate.per_second == FIRST_RATE
    for minute in range(1, 30):
        rate = throttled(rate, 0.0, START + minute * MINUTE)
    assert rate.per_second == FLOOR
    for minute in range(30, 3_000):
        rate = cleaned(rate, START + minute * MINUTE, ceiling=25.0)
    assert rate.per_second == 25.0
    assert throttled(None, 500.0, START, ceiling=25.0).per_second == 12.5


def test_a_provider_that_rejected_everything_for_half_an_hour_soon_gets_its_rate_back() -> None:
    rate = throttled(None, 40.0, START)
    ended = START + 30 * MINUTE
    for seconds in range(5, 30 * 60, 5):
        rate = throttled(rate, 0.0, START + seconds)
    assert rate.per_second == FLOOR
    for minute in range(1, 4):
        rate = cleaned(rate, ended + minute * MINUTE)
    assert rate.per_second > 30.0


def test_a_rate_that_grows_for_weeks_expires_and_is_learned_again() -> None:
    rate = throttled(None, 40.0, START)
    for minute in range(1, 20 * 1_440):
        rate = cleaned(rate, START + minute * MINUTE)
    assert rate.per_second == 360.0
    now = START + 20 * DAY
    assert rate.is_forgotten(now)
    assert throttled(rate, 1_000.0, now).per_second == 500.0


def test_a_slow_rate_is_not_dropped_when_it_has_grown_tenfold() -> None:
    rate = AdaptiveRate(2.0, 0.1, START, START)
    assert not rate.is_forgotten(START + DAY)


def test_what_a_provider_said_a_month_ago_is_forgotten() -> None:
    rate = throttled(None, 40.0, START)
    assert not rate.is_forgotten(START + 29 * DAY)
    assert rate.is_forgotten(START + 31 * DAY)
    assert throttled(rate, 400.0, START + 31 * DAY).per_second == 200.0
