"""The rules of access, without a store: tries, codes, limits, keys that count down."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyotp
import pytest

from postroom.domain.errors import Invalid
from postroom.domain.plain_text import printable
from postroom.domain.rate_limits import RateLimit, RateLimiter, client_network, may_be_shared
from postroom.services.accounts import second_factor
from postroom.services.accounts.passwords import Passwords, check_password
from postroom.services.row_ranges import moment_of, new_row, rows_before, rows_of_day
from postroom.web.requests.login_limits import LoginLimits

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_after_some_attempts_at_once_one_per_interval_is_allowed() -> None:
    pace, mark, now = RateLimit(10, 60), 0.0, 1000.0
    for _ in range(10):
        assert pace.wait(mark, now) == 0
        mark = pace.after(mark, now)
    assert pace.wait(mark, now) == 60
    for minute in range(1, 2000):  # however long it goes on, the wait does not grow
        now = 1000.0 + 60 * minute
        assert pace.wait(mark, now) == 0
        mark = pace.after(mark, now)
        assert pace.wait(mark, now) == 60
    assert pace.wait(mark, now + 600) == 0
    assert pace.after(mark, now + 6000) == now + 6060


def test_a_mark_is_kept_as_a_moment() -> None:
    pace, mark = RateLimit(2, 60), None
    for _ in range(2):
        mark = pace.next_moment(mark, NOW)
        assert mark is not None
    assert pace.next_moment(mark, NOW + timedelta(seconds=59)) is None
    assert pace.next_moment(mark, NOW + timedelta(seconds=60)) is not None


def test_a_code_is_valid_once_in_its_step_and_the_neighbouring_ones() -> None:
    secret = second_factor.new_secret()
    step = int(NOW.timestamp()) // 30
    codes = {shift: pyotp.TOTP(secret).at(NOW, shift) for shift in (-2, -1, 0, 1, 2)}
    found = {n: second_factor.matching_step(secret, code, 0, NOW) for n, code in codes.items()}
    assert (found[-1], found[0], found[1]) == (step - 1, step, step + 1)
    assert second_factor.matching_step(secret, f" {codes[0][:3]} {codes[0][3:]}\n", 0, NOW) == step
    assert second_factor.matching_step(secret, codes[0], step, NOW) is None
    for wrong in ("", "0", "x" * 10_000, "\ud800", "１２３４５６", codes[0] + "0"):
        assert second_factor.matching_step(secret, wrong, 0, NOW) is None


def test_the_link_for_the_app_names_the_user() -> None:
    link = second_factor.app_link("JBSWY3DPEHPK3PXP", "ann+a@example.org")
    assert pyotp.parse_uri(link).name == "ann+a@example.org"


def test_a_recovery_code_may_be_written_carelessly() -> None:
    codes = second_factor.new_recovery_codes()
    hashes = [second_factor.hashed_code(code) for code in codes]
    assert second_factor.without_code(hashes, f"  {codes[3].upper()} ") == hashes[:3] + hashes[4:]
    assert second_factor.without_code(hashes, "") is None
    assert all(code not in " ".join(hashes) for code in codes)


async def test_a_password_is_checked_even_for_users_without_one() -> None:
    passwords = Passwords()
    hashed = await passwords.hash("correct horse battery")
    assert await passwords.matches(hashed, "correct horse battery")
    assert not await passwords.matches(hashed, "wrong horse battery")
    assert not await passwords.matches(None, "correct horse battery")
    assert not await passwords.matches(hashed, "\ud800" * 5000)


@pytest.mark.parametrize("password", ["short", "x" * 1001, "aaaaaaaaaaaa", ""])
def test_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(Invalid):
        check_password(password)


def test_attempts_are_counted_by_key_and_forgotten_with_time() -> None:
    now = [0.0]
    limit = RateLimiter(RateLimit(2, 60), clock=lambda: now[0])
    assert [limit.take("a"), limit.take("a"), limit.take("a"), limit.take("b")] == [0, 0, 60, 0]
    now[0] = 59.5
    assert limit.take("a") == 1
    now[0] = 60.0
    assert [limit.take("a"), limit.take("a")] == [0, 60]
    limit.forget("a")
    assert limit.take("a") == 0
    for number in range(30_000):
        limit.take(str(number))
    assert len(limit._used_up) <= 20_000


def test_strangers_are_slowed_down_by_network_and_by_address_whether_a_user_has_it_or_not() -> None:
    limits, elsewhere = LoginLimits(clock=lambda: 1000.0), "203.0.113.99"
    one = [limits.take("Ann@example.org ", "198.51.100.1") for _ in range(11)]
    assert one == [0] * 10 + [60]
    assert limits.take("ann@example.org", elsewhere) == 0  # only that network waits
    many = [limits.take("ann@example.org", f"203.0.113.{n}") for n in range(9)]
    assert many == [0] * 9
    assert limits.take("ann@example.org", "203.0.113.200") == 60
    assert limits.take("bob@example.org", elsewhere) == 0


def test_a_known_device_has_a_separate_count() -> None:
    limits = LoginLimits(clock=lambda: 1000.0)
    for number in range(100):
        limits.take("ann@example.org", f"198.51.100.{number}")
    assert limits.take("ann@example.org", "198.51.100.1") > 0
    known = [limits.take("ann@example.org", "198.51.100.1", "her laptop") for _ in range(11)]
    assert known == [0] * 10 + [60]
    assert limits.take("ann@example.org", "198.51.100.1", "her phone") == 0


def test_a_private_address_is_not_taken_for_one_visitor() -> None:
    limits = LoginLimits(clock=lambda: 1000.0)
    for proxy in ("127.0.0.1", "10.0.0.7", "::1", "fe80::1%eth0", "192.168.1.1", ""):
        assert may_be_shared(proxy)
        waits = [limits.take(f"{n}@{proxy}.example", proxy) for n in range(100)]
        assert waits == [0] * 100, proxy
    public = [limits.take(f"{n}@example.org", "8.8.8.8") for n in range(61)]
    assert public == [0] * 60 + [15]


def test_long_addresses_do_not_fill_the_memory() -> None:
    limits = LoginLimits(clock=lambda: 1000.0)
    kept = limits._by_address._used_up
    for number in range(70):
        limits.take(f"{number}@{'x' * 10_000}", "8.8.8.8")
    assert len(kept) == 60  # none from a network that is refused
    assert max(map(len, kept)) < 100
    assert limits.take("\ud800", "8.8.4.4") == 0
    limits.forget("\ud800", "8.8.4.4")
    assert len(kept) == 60


def test_a_whole_network_of_a_customer_counts_as_one_place() -> None:
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:1") == "2001:db8::/64"
    assert client_network("2001:db8:0:1::1") != client_network("2001:db8::1")
    assert client_network("192.0.2.1") == "192.0.2.1"
    assert client_network("fe80::1%eth0") == "fe80::/64"
    assert client_network("nonsense") == "nonsense"


def test_newer_rows_sort_first() -> None:
    moments = [NOW + timedelta(microseconds=n) for n in range(3)] + [NOW + timedelta(days=9000)]
    rows = [new_row(moment) for moment in moments]
    assert sorted(rows, reverse=True) == rows
    assert [moment_of(row) for row in rows] == moments
    assert new_row(NOW) != new_row(NOW)


def test_a_day_and_the_time_before_a_moment_are_key_ranges() -> None:
    midnight = datetime(2026, 11, 15, tzinfo=UTC)
    tick = timedelta(microseconds=1)
    day = rows_of_day(date(2026, 11, 15))
    inside = [midnight, midnight + timedelta(days=1) - tick]
    outside = [midnight - tick, midnight + timedelta(days=1)]
    assert day.start is not None
    assert day.stop is not None
    assert all(day.start <= new_row(each) < day.stop for each in inside)
    assert not any(day.start <= new_row(each) < day.stop for each in outside)
    assert rows_of_day(date.max) != rows_of_day(date.min)
    before = rows_before(NOW).start
    assert before is not None
    assert new_row(NOW - tick) >= before > new_row(NOW)


def test_a_text_for_a_log_is_one_printable_line() -> None:
    assert printable("a\r\nb\u2028c\u202ed\ud800", longest=20) == "a��b�c�d�"
    assert printable("x" * 50, longest=10) == "x" * 9 + "…"
