"""The appearance of a list: its colour, readable text colours, and its logo.

Contrast and luminance are those of WCAG 2.2, which asks for 4.5 to 1 for text.
"""

from __future__ import annotations

import re
import struct
from typing import NewType

import msgspec

from postroom.domain.errors import Invalid

Colour = NewType("Colour", str)

BLACK, WHITE = Colour("#000000"), Colour("#ffffff")
READABLE = 4.5

_COLOUR = re.compile(r"#?([0-9a-f]{6}|[0-9a-f]{3})", re.ASCII)
_STEPS = 20


def parse_button_colour(text: str, field: str = "button_colour") -> Colour:
    """Return a colour, or "". `Invalid`."""
    return parse_colour(text, field)


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


class Accent(msgspec.Struct, frozen=True):
    """A colour on a background: what is written in it, filled with it, and written on the fill.

    Text in `text`, and in `on_fill` on `fill` and `hover`, is readable, whatever the colour.
    """

    text: Colour
    fill: Colour
    hover: Colour
    line: Colour
    on_fill: Colour
    tint: Colour


_VISIBLE_CONTRAST = 1.6
_TINT = 0.1


def accent_on(background: Colour, colour: Colour) -> Accent:
    on, in_text = text_on(colour), readable_on(background, colour)
    return Accent(
        text=in_text,
        fill=colour,
        # Further from the colour of the text on it, which stays readable.
        hover=mix(colour, text_on(on), 0.15),
        # A button in nearly the colour of the page gets a visible border.
        line=colour if contrast(colour, background) >= _VISIBLE_CONTRAST else in_text,
        on_fill=on,
        tint=mix(background, in_text, _TINT),
    )


def _parts(colour: Colour) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: Colour) -> float:
    red, green, blue = (_linear(part / 255) for part in _parts(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(value: float) -> float:
    """Undo the gamma curve of sRGB."""
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


LARGEST_BYTES = 200_000
LARGEST_SIDE = 2000  # pixels: a small file can hold a picture that fills a phone's memory

_JPEG_SIZES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB})
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length


class Image(msgspec.Struct, frozen=True):
    """A picture in a format that browsers show and that cannot contain scripts: no SVG."""

    kind: str
    width: int
    height: int


def parse_image(data: bytes, field: str = "logo") -> Image:
    """Recognise a picture by its first bytes. `Invalid` unless it is a PNG, JPEG or WebP of an
    allowed size."""
    if len(data) > LARGEST_BYTES:
        raise Invalid(field, f"must be at most {LARGEST_BYTES:,} bytes, not {len(data):,}")
    try:
        found = _png(data) or _webp(data) or _jpeg(data)
    except (struct.error, IndexError):
        found = None
    if found is None:
        raise Invalid(field, "must be a PNG, JPEG or WebP picture")
    if not (0 < found.width <= LARGEST_SIDE and 0 < found.height <= LARGEST_SIDE):
        raise Invalid(
            field,
            f"must have at most {LARGEST_SIDE} by {LARGEST_SIDE} pixels,"
            f" not {found.width} by {found.height}",
        )
    return found


def _png(data: bytes) -> Image | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return None
    return Image("png", *struct.unpack(">II", data[16:24]))


def _webp(data: bytes) -> Image | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    match data[12:16]:
        case b"VP8X":
            wide, high = data[24:27], data[27:30]
            return Image("webp", int.from_bytes(wide, "little") + 1,
                         int.from_bytes(high, "little") + 1)  # fmt: skip
        case b"VP8L":
            (bits,) = struct.unpack("<I", data[21:25])
            return Image("webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8 ":
            wide, high = struct.unpack("<HH", data[26:30])
            return Image("webp", wide & 0x3FFF, high & 0x3FFF)
        case _:
            return None


def _jpeg(data: bytes) -> Image | None:
    """Find the segment that has the size; others may come first."""
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _JPEG_SIZES:
            high, wide = struct.unpack(">HH", data[at + 5 : at + 9])
            return Image("jpeg", wide, high)
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        else:
            (length,) = struct.unpack(">H", data[at + 2 : at + 4])
            at += 2 + max(length, 2)
    return None
