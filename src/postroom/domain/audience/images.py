"""Recognising pictures by their first bytes, whatever their name or declared type.

Only formats that browsers show and that cannot contain scripts: no SVG.
"""

from __future__ import annotations

import struct

import msgspec

from postroom.domain.errors import Invalid

LARGEST_BYTES = 200_000
LARGEST_SIDE = 2000  # pixels: a small file can hold a picture that fills a phone's memory

_JPEG_SIZES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB})
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length


class Image(msgspec.Struct, frozen=True):
    kind: str
    width: int
    height: int


def parse_image(data: bytes, field: str = "logo") -> Image:
    """Return what the bytes are. `Invalid` unless it is a PNG, JPEG or WebP of an allowed size."""
    if len(data) > LARGEST_BYTES:
        raise Invalid(field, f"must have at most {LARGEST_BYTES:,} bytes, not {len(data):,}")
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
