"""The ring around what has the focus stands out from everything that it is drawn on."""

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.lists.appearance import Colour, accent_on, contrast
from postroom.web.public.branding import BACKGROUNDS
from postroom.web.rendering.templating import FOLDER

VISIBLE: Final = 3.0  # WCAG 2.2, 1.4.11: what shows the state of a control
CSS: Final = FOLDER / "static/css"
# Which token a ring is drawn with, and what may be next to it. `test_these_are_all_rings` finds
# style sheets that draw one in another colour.
RINGS: Final = {
    "focus": (
        *("page", "surface", "sunken"),
        *("accent-tint", "good-tint", "warn-tint", "bad-tint"),
    ),
    "bad": ("page", "surface", "sunken"),
    "toast-accent": ("toast",),
}
THEMES: Final = ("light", "dark")
colours = st.integers(0, 0xFFFFFF).map(lambda number: Colour(f"#{number:06x}"))


def _tokens(theme: str) -> dict[str, Colour]:
    """Return the colours of tokens.css as a theme has them."""
    text = (CSS / "tokens.css").read_text()
    found = re.findall(
        r"--([\w-]+): (?:light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)|(#[0-9a-f]{6}));", text
    )
    dark = theme == "dark"
    return {name: Colour(both or (night if dark else day)) for name, day, night, both in found}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    ("ring", "background"),
    [(ring, each) for ring, backgrounds in RINGS.items() for each in backgrounds],
)
def test_a_ring_can_be_seen(theme: str, ring: str, background: str) -> None:
    tokens = _tokens(theme)
    assert contrast(tokens[ring], tokens[background]) >= VISIBLE


def test_these_are_all_rings() -> None:
    drawn: set[str] = set()
    for file in CSS.glob("*.css"):
        for selector, rules in re.findall(r"([^{}]+){([^{}]*)}", file.read_text()):
            if ":focus" in selector:
                drawn |= set(re.findall(r"outline(?:-color)?: [^;]*?var\(--([\w-]+)\)", rules))
                drawn |= set(re.findall(r"outline(?:-color)?: [^;]*?(#\w+)", rules))
    assert drawn == RINGS.keys()


@pytest.mark.parametrize("background", BACKGROUNDS)
@given(colour=colours)
def test_a_ring_in_the_colour_of_a_list_can_be_seen(background: Colour, colour: Colour) -> None:
    """The ring is drawn in the colour of text, on the page and on what is tinted."""
    accent = accent_on(background, colour)
    assert contrast(accent.text, background) >= VISIBLE
    assert contrast(accent.text, accent.tint) >= VISIBLE
