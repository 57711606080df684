"""A list's colour: one spelling, and always something that can be read on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.lists.appearance import (
    BLACK,
    READABLE,
    WHITE,
    Colour,
    contrast,
    mix,
    parse_colour,
    readable_on,
    text_on,
)
from postroom.domain.errors import Invalid

colours = st.integers(0, 0xFFFFFF).map(lambda number: Colour(f"#{number:06x}"))


@pytest.mark.parametrize(
    ("text", "colour"),
    [("#1D5FBF", "#1d5fbf"), (" 1d5fbf ", "#1d5fbf"), ("#fa0", "#ffaa00"), ("", "")],
)
def test_a_colour_has_one_spelling(text: str, colour: str) -> None:
    assert parse_colour(text) == colour


@pytest.mark.parametrize(
    "text", ["red", "#12", "#1234567", "#1d5fb;", "#1d5fbg", "url(x)", "#１２３", "}", "\0", "   "]
)
def test_an_invalid_colour_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_colour(text)
    assert refused.value.field == "colour"


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, WHITE) == 1
    assert contrast(Colour("#767676"), WHITE) == pytest.approx(4.54, abs=0.01)


@given(colours, colours)
def test_text_on_a_colour_and_in_a_colour_can_be_read(colour: Colour, background: Colour) -> None:
    assert contrast(text_on(colour), colour) >= READABLE
    assert contrast(readable_on(background, colour), background) >= READABLE


def test_a_colour_that_can_be_read_stays_as_it_is() -> None:
    assert readable_on(WHITE, Colour("#1d5fbf")) == "#1d5fbf"
    assert mix(BLACK, WHITE, 0.5) == "#808080"
