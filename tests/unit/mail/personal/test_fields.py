"""Merge fields: the known ones, and a clear word about all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.errors import Invalid
from postroom.mail.personal.merge_fields import check_fields, find_fields, list_fields_in


@pytest.mark.parametrize("written", ["{{ email }}", "{{email}}", "{{  email\t}}"])
def test_spaces_in_the_braces_are_optional(written: str) -> None:
    [found] = find_fields("text", f"a{written}b")
    assert (found.name, found.start, found.end) == ("email", 1, 1 + len(written))


def test_the_fields_of_a_text_are_found_in_order() -> None:
    text = "{{ email }}{{ list_description }}, } }} { {a{{ unsubscribe_url }}"
    names = [each.name for each in find_fields("text", text)]
    assert names == ["email", "list_description", "unsubscribe_url"]


def test_fields_of_the_list_and_those_of_every_email_are_distinguished() -> None:
    text = '{{ city | default: "x" }}{{ email }}{{ first_name | default: "y" }}{{city}}'
    assert list_fields_in(text, None, "{{ plan }}") == ("city", "first_name", "plan")


def test_a_field_that_may_be_empty_needs_a_default() -> None:
    check_fields("subject", '{{ first_name | default: "" }}, member since {{ joined }}')
    with pytest.raises(Invalid, match=r"line 2, column 3: \{\{ first_name \}\} may be empty"):
        check_fields("text", "a\n  {{ first_name }}")


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
        fields = list(find_fields("text", text))
    except Invalid:
        assert "{{" in text
        return
    for each in reversed(fields):
        text = text[: each.start] + "x" + text[each.end :]
    assert "{{" not in text
