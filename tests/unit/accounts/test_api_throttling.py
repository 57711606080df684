"""How often one key may call the API."""

from postroom.web.api.middleware import Bucket


def test_who_was_quiet_may_be_quick_and_then_waits_for_each_call() -> None:
    now = 100.0
    bucket = Bucket(2, clock=lambda: now)
    assert all(bucket.take() for _ in range(120))
    assert not bucket.take()
    assert bucket.seconds_until_next == 1
    now += 0.4
    assert not bucket.take()
    now += 0.2
    assert bucket.take()
    assert not bucket.take()


def test_calls_that_were_not_used_do_not_pile_up_beyond_a_minute() -> None:
    now = 0.0
    bucket = Bucket(1, clock=lambda: now)
    now += 86_400
    assert sum(bucket.take() for _ in range(100)) == 60
    assert dict(bucket.headers()) == {
        b"ratelimit-limit": b"60",
        b"ratelimit-remaining": b"0",
        b"ratelimit-reset": b"60",
    }
