"""Colours of lists, and which text colours are readable with them.

Contrast and luminance are those of WCAG 2.2, which asks for 4.5 to 1 for text.
"""

from __future__ import annotations

import re
from typing import NewType

from postroom.domain.errors import Invalid

Colour = NewType("Colour", str)

BLACK, WHITE = Colour("#000000"), Colour("#ffffff")
READABLE = 4.5

_COLOUR = re.compile(r"#?([0-9a-f]{6}|[0-9a-f]{3})", re.ASCII)
_STEPS = 20


def parse_colour(text: str, field: str = "colour") -> Colour:
    """Return a colour as `#rrggbb`; `#rgb` is accepted, and so is an empty text. `Invalid`."""
    found = _COLOUR.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if found is None:
        if text == "":
            return Colour("")
        raise Invalid(field, f"must be a colour such as #1d5fbf, not {str(text)[:20]!r}")
    digits = found[1]
    return Colour("#" + (digits if len(digits) == 6 else "".join(2 * each for each in digits)))


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours: from 1 (the same) to 21 (black on white)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(background: Colour) -> Colour:
    """Return black or white, whichever is more readable on the background."""
    return max(WHITE, BLACK, key=lambda each: contrast(each, background))


def readable_on(background: Colour, colour: Colour) -> Colour:
    """Return the colour, made lighter or darker until text in it is readable on the background."""
    towards = text_on(background)
    for step in range(_STEPS + 1):
        mixed = mix(colour, towards, step / _STEPS)
        if contrast(mixed, background) >= READABLE:
            return mixed
    return towards


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """Mix `share` (0 to 1) of one colour into another."""
    parts = zip(_parts(one), _parts(other), strict=True)
    return Colour("#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in parts))


def _parts(colour: Colour) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: Colour) -> float:
    red, green, blue = (_linear(part / 255) for part in _parts(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(value: float) -> float:
    """Undo the gamma curve of sRGB."""
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)
