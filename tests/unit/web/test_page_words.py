"""How pages say what is wrong with a field."""

from __future__ import annotations

import pytest

from postroom.web.rendering.templating import sentence


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ("is not an address", "The address is not an address."),
        ("must not be empty", "The address must not be empty."),
        ("there is no list 'x'", "There is no list “x”."),
        ("must be '_', '-' or '.'", "The address must be “_”, “-” or “.”."),
        ("isn't one of Ann's", "Isn't one of Ann's."),
        ("choose a time zone from the list", "Choose a time zone from the list."),
        ("The password is wrong.", "The password is wrong."),
        ("line 2: is a quote missing?", "Line 2: is a quote missing?"),
    ],
)
def test_an_error_becomes_a_sentence_with_a_subject(problem: str, expected: str) -> None:
    assert sentence(problem, "The address") == expected
