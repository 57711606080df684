"""How often one key may call the API."""

from postroom.domain.rate_limits import RateLimit, RateLimiter


def test_a_quiet_key_may_make_a_burst_and_then_waits_for_each_call() -> None:
    now = 100.0
    limiter = RateLimiter(RateLimit(120, 0.5), clock=lambda: now)
    assert all(limiter.take("key") == 0 for _ in range(120))
    assert limiter.take("key") == 1
    now += 0.4
    assert limiter.take("key") == 1
    now += 0.2
    assert limiter.take("key") == 0
    assert limiter.take("key") == 1


def test_unused_calls_do_not_pile_up_beyond_the_burst() -> None:
    now = 0.0
    limiter = RateLimiter(RateLimit(60, 1), clock=lambda: now)
    now += 86_400
    assert limiter.left("key") == 60
    assert sum(limiter.take("key") == 0 for _ in range(100)) == 60
    assert limiter.left("key") == 0
    assert limiter.seconds_until_full("key") == 60


def test_what_is_left_is_exact_for_odd_rates() -> None:
    limiter = RateLimiter(RateLimit(60 * 49, 1 / 49), clock=lambda: 1e6)
    for used in range(1, 200):
        limiter.count("key")
        assert limiter.left("key") == 60 * 49 - used
