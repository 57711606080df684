"""Merge fields: the known ones, and a clear word about all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.errors import Invalid
from postroom.mail.merge_fields import Field, check_fields, split_fields


@pytest.mark.parametrize("written", ["{{ email }}", "{{email}}", "{{  email\t}}"])
def test_spaces_in_the_braces_are_optional(written: str) -> None:
    assert list(split_fields("text", f"a{written}b")) == ["a", Field.EMAIL, "b"]


def test_a_text_is_split_into_what_stays_and_the_fields() -> None:
    text = "{{ email }}{{ list_description }}, } }} { {a{{ unsubscribe_url }}"
    assert list(split_fields("text", text)) == [
        Field.EMAIL,
        Field.LIST_DESCRIPTION,
        ", } }} { {a",
        Field.UNSUBSCRIBE_URL,
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{{ name }}",
            "line 1, column 1: there is no merge field {{ name }} here, only {{ email }}, ",
        ),
        ("a\nb\r\nc\rd {{ Email }}", "line 4, column 3: there is no merge field {{ Email }}"),
        ("\n{{ email", "line 2, column 1: the merge field '{{ email' is not closed with '}}'"),
        ("{{ email }", "line 1, column 1: the merge field '{{ email' is not closed with '}}'"),
        ("{{ email\n}}", "line 1, column 1: the merge field '{{ email' is not closed"),
        ("{{}}", "line 1, column 1: there is no merge field"),
        ("{{", "line 1, column 1: the merge field '{{ ' is not closed"),
        ("{{{ email }}}", "line 1, column 1: the merge field"),
        ("{{ e\x07\u2028mail }}", "{{ e mail }}"),
        ("{{ " + "x" * 90 + " }}", "x" * 40 + "…"),
    ],
)
def test_an_unknown_or_malformed_field_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_fields("html", text)
    assert caught.value.field == "html"
    assert problem in caught.value.problem
    assert caught.value.problem.isprintable()


def test_a_subject_may_hold_the_address_and_the_description_but_no_link() -> None:
    check_fields("subject", "{{ list_description }} for {{ email }}")
    with pytest.raises(
        Invalid, match="subject: line 1, column 1: there is no merge field"
    ) as caught:
        check_fields("subject", "{{ unsubscribe_url }}")
    assert "only {{ email }}, {{ list_description }}" in caught.value.problem


@given(st.text(alphabet="{} emailx\n"))
def test_what_passes_the_check_has_no_opening_braces_left(text: str) -> None:
    try:
        pieces = list(split_fields("text", text))
    except Invalid:
        assert "{{" in text
        return
    assert not any("{{" in each for each in pieces if not isinstance(each, Field))
    check_fields("text", text)
