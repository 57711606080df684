"""Rules of the domain that the use cases rely on and that are easy to get wrong."""

import unicodedata

import pytest
from email_validator import validate_email
from email_validator.rfc_constants import CASE_INSENSITIVE_MAILBOX_NAMES

from postroom.domain.audience.addresses import parse_address
from postroom.domain.errors import Invalid
from postroom.domain.plain_text import one_line


@pytest.mark.parametrize("name", [*CASE_INSENSITIVE_MAILBOX_NAMES, "information", "Ann"])
@pytest.mark.parametrize("domain", ["contoso.com", "contoso.example", "münchen.de"])
def test_a_mailbox_that_is_the_same_everywhere_has_one_spelling(name: str, domain: str) -> None:
    for spelling in (name, name.upper(), name.title()):
        expected = validate_email(
            f"{spelling}@{domain}", check_deliverability=False, test_environment=True
        ).normalized
        assert parse_address(f"{spelling}@{domain}") == expected
        if name in CASE_INSENSITIVE_MAILBOX_NAMES:
            assert expected == f"{name}@{domain}"


def test_a_character_that_this_python_does_not_know_yet_may_stand_in_a_subject() -> None:
    """Which characters are assigned differs from Python to Python; a subject must not."""
    unassigned = next(
        chr(code) for code in range(0x1FA70, 0x1FB00) if unicodedata.category(chr(code)) == "Cn"
    )
    assert one_line("subject", f"News {unassigned}", longest=100) == f"News {unassigned}"
    shaking_face = "\U0001fae8"  # Unicode 15
    assert one_line("subject", f"News {shaking_face}", longest=100)


@pytest.mark.parametrize(
    "bad", ["\ufffe", "\uffff", "\ufdd0", "\ufdef", "\U0001ffff", "\U0010fffe", "\ud83d", "\x1b"]
)
def test_an_invalid_character_is_refused(bad: str) -> None:
    with pytest.raises(Invalid, match=r"U\+"):
        one_line("subject", f"News{bad} of today", longest=100)
