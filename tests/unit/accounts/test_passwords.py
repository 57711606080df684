"""Which passwords may be chosen."""

import asyncio
from importlib.resources import files

import pytest

from postroom.domain.errors import Invalid
from postroom.services.accounts.passwords import (
    COMMON_PASSWORDS,
    LONGEST_PASSWORD,
    PREFIX_BYTES,
    Passwords,
    check_password,
    is_common,
)
from tests.services.passwords import quick_passwords

__all__ = ["quick_passwords"]


def problem_with(password: str, email: str = "") -> str:
    with pytest.raises(Invalid) as caught:
        check_password(password, email=email)
    return caught.value.problem


@pytest.mark.parametrize(
    "password",
    ["1234567890", "password123", "Password123", "PASSWORD123!", "qwertyuiop", "q1w2e3r4t5y6",
     "iloveyou123", "basketball", "1qaz2wsx3edc"],
)  # fmt: skip
def test_common_passwords_are_refused(password: str) -> None:
    assert problem_with(password) == "is too common: choose another one"


@pytest.mark.parametrize(
    "password",
    ["ann.smith@contoso.example", "Ann.Smith@Contoso.Example1", "annsmith2026", "smith-contoso!",
     "contoso-1234", "Postroom123", "postroom-ann"],
)  # fmt: skip
def test_the_users_address_and_our_name_are_refused(password: str) -> None:
    error = problem_with(password, "ann.smith@contoso.example")
    assert error == "must not be just your address or “Postroom” and a few characters"


@pytest.mark.parametrize(
    "password",
    ["correct horse battery staple", "contoso has nine blue doors", "!@#$%^&*()_+[]",
     "x" * 996 + "abcd", "пароль из шести слов", "🐎🔋📎🐢 horse and more", "kP3-vvQ9.t_Zr"],
)  # fmt: skip
def test_other_passwords_are_accepted_as_they_are(password: str) -> None:
    assert check_password(password, email="ann.smith@contoso.example") == password


def test_the_list_has_more_common_passwords_than_asvs_asks_for() -> None:
    content = files("postroom.services.accounts").joinpath(COMMON_PASSWORDS).read_bytes()
    entries = [content[at : at + PREFIX_BYTES] for at in range(0, len(content), PREFIX_BYTES)]
    assert len(entries) == 45_343  # ASVS 6.2.4: at least 3,000
    assert entries == sorted(set(entries))


def test_hardly_any_other_password_is_taken_for_a_common_one() -> None:
    assert not any(is_common(f"a made-up password, number {number}") for number in range(20_000))


async def test_a_password_is_never_cut(quick_passwords: None) -> None:
    longest = "0123456789" * (LONGEST_PASSWORD // 10)
    assert "at most 1,000 characters" in problem_with(longest + "x")
    passwords = Passwords()
    hashed = await passwords.hash(longest)
    fits = await asyncio.gather(
        *(passwords.matches(hashed, each) for each in (longest, longest + "x", longest[:-1]))
    )
    assert fits == [True, False, False]
