"""The rules of access, without a store: tries, codes, limits, keys that count down."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyotp
import pytest

from postroom.domain.errors import Invalid
from postroom.domain.texts import printable
from postroom.services import lockout, second_factor
from postroom.services.lockout import Tries, counted
from postroom.services.newest_first import moment_of, new_row, rows_before, rows_of_day
from postroom.services.passwords import Passwords, check_password
from postroom.web.try_limits import LoginLimits, TryLimit, network_of

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def after_tries(count: int, tries: Tries, now: datetime) -> Tries:
    for _ in range(count):
        following = counted(tries, now)
        assert following is not None
        tries = following
    return tries


def test_the_tenth_try_within_a_quarter_of_an_hour_locks() -> None:
    tries = after_tries(9, Tries(), NOW)
    assert not tries.is_locked(NOW)
    locked = after_tries(1, tries, NOW + timedelta(minutes=14))
    until = NOW + timedelta(minutes=29)
    assert locked.locked_until == until
    assert counted(locked, until - timedelta(seconds=1)) is None
    assert counted(locked, until) is not None


def test_tries_that_lie_far_apart_do_not_lock() -> None:
    tries = Tries()
    for number in range(50):
        following = counted(tries, NOW + timedelta(minutes=2 * number))
        assert following is not None
        tries = following
    assert tries.locks == 0


def test_each_lock_is_twice_as_long_up_to_a_day() -> None:
    tries, now, lengths = Tries(), NOW, []
    for _ in range(9):
        tries = after_tries(lockout.TRIES, tries, now)
        assert tries.locked_until is not None
        lengths.append((tries.locked_until - now) / timedelta(minutes=15))
        now = tries.locked_until
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 96, 96]
    calm = after_tries(lockout.TRIES, tries, now + timedelta(hours=25))
    assert calm.locks == 1


def test_a_code_fits_its_step_and_the_ones_beside_it_once() -> None:
    secret = second_factor.new_secret()
    step = int(NOW.timestamp()) // 30
    codes = {shift: pyotp.TOTP(secret).at(NOW, shift) for shift in (-2, -1, 0, 1, 2)}
    found = {n: second_factor.fitting_step(secret, code, 0, NOW) for n, code in codes.items()}
    assert (found[-1], found[0], found[1]) == (step - 1, step, step + 1)
    assert second_factor.fitting_step(secret, f" {codes[0][:3]} {codes[0][3:]}\n", 0, NOW) == step
    assert second_factor.fitting_step(secret, codes[0], step, NOW) is None
    for wrong in ("", "0", "x" * 10_000, "\ud800", "１２３４５６", codes[0] + "0"):
        assert second_factor.fitting_step(secret, wrong, 0, NOW) is None


def test_the_link_for_the_app_names_the_user() -> None:
    link = second_factor.app_link("JBSWY3DPEHPK3PXP", "ann+a@example.org")
    assert pyotp.parse_uri(link).name == "ann+a@example.org"


def test_a_recovery_code_may_be_written_carelessly() -> None:
    codes = second_factor.new_recovery_codes()
    hashes = [second_factor.hashed_code(code) for code in codes]
    assert second_factor.without_code(hashes, f"  {codes[3].upper()} ") == hashes[:3] + hashes[4:]
    assert second_factor.without_code(hashes, "") is None
    assert all(code not in " ".join(hashes) for code in codes)


async def test_a_password_is_checked_even_where_there_is_none() -> None:
    passwords = Passwords()
    hashed = await passwords.hash("correct horse battery")
    assert await passwords.fits(hashed, "correct horse battery")
    assert not await passwords.fits(hashed, "wrong horse battery")
    assert not await passwords.fits(None, "correct horse battery")
    assert not await passwords.fits(hashed, "\ud800" * 5000)


@pytest.mark.parametrize("password", ["short", "x" * 1001, "aaaaaaaaaaaa", ""])
def test_passwords_that_help_nobody_are_refused(password: str) -> None:
    with pytest.raises(Invalid):
        check_password(password)


def test_tries_are_counted_by_key_and_forgotten_with_time() -> None:
    now = [0.0]
    limit = TryLimit(2, 60, clock=lambda: now[0])
    assert [limit.wait("a"), limit.wait("a"), limit.wait("a"), limit.wait("b")] == [0, 0, 60, 0]
    now[0] = 59.5
    assert limit.wait("a") == 1
    now[0] = 60.0
    assert [limit.wait("a"), limit.wait("a"), limit.wait("a") > 0] == [0, 0, True]
    limit.forget("a")
    assert limit.wait("a") == 0
    for number in range(30_000):
        limit.wait(str(number))
    assert len(limit._tries) <= 20_000


def test_a_login_is_limited_by_address_whether_somebody_has_it_or_not_and_by_place() -> None:
    limits = LoginLimits()
    assert [limits.wait("Ann@example.org ", f"10.0.0.{n}") for n in range(10)] == [0] * 10
    assert limits.wait("ann@example.org", "10.0.1.1") > 0
    assert [limits.wait(f"{n}@example.org", "10.0.2.2") for n in range(60)] == [0] * 60
    assert limits.wait("new@example.org", "10.0.2.2") > 0


def test_whoever_types_a_lot_does_not_fill_the_memory() -> None:
    limits = LoginLimits()
    kept = limits._by_address._tries
    for number in range(70):
        limits.wait(f"{number}@{'x' * 10_000}", "10.0.0.1")
    assert len(kept) == 60  # none from a place that is refused
    assert max(map(len, kept)) < 100
    assert limits.wait("\ud800", "10.0.0.2") == 0
    limits.forget("\ud800")
    assert len(kept) == 60


def test_a_whole_network_of_a_customer_counts_as_one_place() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("nonsense") == "nonsense"


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
    assert all(day.start <= new_row(each) < day.stop for each in inside if day.start and day.stop)
    assert not any(
        day.start <= new_row(each) < day.stop for each in outside if day.start and day.stop
    )
    assert rows_of_day(date.max) != rows_of_day(date.min)
    before = rows_before(NOW).start
    assert before is not None
    assert new_row(NOW - tick) >= before > new_row(NOW)


def test_a_text_for_a_log_is_one_printable_line() -> None:
    assert printable("a\r\nb\u2028c\u202ed\ud800", longest=20) == "a��b�c�d�"
    assert printable("x" * 50, longest=10) == "x" * 9 + "…"
