"""Address keys: one for all spellings of an address."""

import pytest

from postroom.domain.audience.addresses import (
    address_key,
    folded,
    parse_address,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dup@example.org", "DUP@Example.ORG"),
        ("jos\u00e9@example.org", "JOSE\u0301@example.org"),
        ("οδος@example.org", "ΟΔΟΣ@example.org"),
        ("иван@почта.рф", "ИВАН@ПОЧТА.РФ"),
    ],
)
def test_spellings_that_differ_only_in_case_have_one_key(one: str, other: str) -> None:
    assert address_key(parse_address(one)) == address_key(parse_address(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("straße@example.org", "strasse@example.org"),
        ("ann@straße.example.org", "ann@strasse.example.org"),
        ("ann.lee@example.org", "annlee@example.org"),
    ],
)
def test_addresses_that_differ_in_more_than_case_stay_two(one: str, other: str) -> None:
    assert address_key(parse_address(one)) != address_key(parse_address(other))


def test_the_key_of_a_key_is_the_key() -> None:
    for number in range(0x20, 0x2FFF):
        assert folded(folded(chr(number))) == folded(chr(number)), hex(number)
