"""Addresses on their way to SMTP: ASCII where possible, never a way to smuggle a command."""

import pytest

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.errors import Invalid
from postroom.mail.wire_addresses import envelope_address, needs_smtputf8


@pytest.mark.parametrize(
    ("address", "expected", "smtputf8"),
    [
        ("anna@example.org", "anna@example.org", False),
        ("o'brien+x=y@example.org", "o'brien+x=y@example.org", False),
        ("anna@bücher.example", "anna@xn--bcher-kva.example", False),
        ("jürgen@example.org", "jürgen@example.org", True),
        ("한글@도메인.한국", "한글@도메인.한국", True),
    ],
)
def test_only_a_local_part_beyond_ascii_needs_smtputf8(
    address: str, expected: str, smtputf8: bool
) -> None:
    parsed = parse_address(address)
    assert envelope_address(parsed) == expected
    assert needs_smtputf8(parsed) is smtputf8


@pytest.mark.parametrize(
    "address",
    [
        "a@b.org>\r\nRCPT TO:<c@d.org",
        "a b@c.org",
        "a@b.org\n",
        "ü\u2028@b.org",
        "a\0@b.org",
        "a\ud800@b.org",
        "a,b@c.org",
    ],
)
def test_what_could_end_a_command_or_a_header_is_refused(address: str) -> None:
    with pytest.raises(Invalid):
        envelope_address(Address(address))


def test_a_domain_without_an_ascii_form_is_left_to_smtputf8() -> None:
    assert needs_smtputf8(Address("a@-ü-.example"))
