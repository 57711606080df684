"""Texts of some lines, and tags of languages."""

import pytest

from postroom.domain.errors import Invalid
from postroom.domain.languages import known_language, parse_language
from postroom.domain.plain_text import some_lines


def test_lines_end_in_one_way_and_blank_ends_go() -> None:
    assert some_lines("text", " one\r\n\r\ntwo\rthree\t!\n ", longest=30) == "one\n\ntwo\nthree\t!"
    assert some_lines("text", " \r\n ", longest=3) == ""


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "a\u202eb", "a\u2028b", "a\ud800b", "x" * 31])
def test_what_cannot_stand_on_a_page_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        some_lines("signup_text", text, longest=30)
    assert refused.value.field == "signup_text"


@pytest.mark.parametrize(
    ("tag", "language"),
    [("fr", "fr"), ("FR-ca", "fr"), ("ko_KR", "ko"), ("es", ""), ("zh-Hant", "")],
)
def test_a_language_is_a_supported_one_or_none(tag: str, language: str) -> None:
    assert parse_language(tag) == known_language(tag) == language


@pytest.mark.parametrize("tag", ["", "f", "french!", "fr\n", "fr;q=1", "\ud800", "fr-" * 500])
def test_an_invalid_language_tag_is_refused(tag: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_language(tag)
    assert refused.value.field == "language"
