"""Pictures are known by their bytes, and nothing that could run is one."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.lists.appearance import LARGEST_BYTES, Image, parse_image
from postroom.domain.errors import Invalid


def png(width: int = 40, height: int = 20) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06"


def jpeg(width: int = 40, height: int = 20) -> bytes:
    return (
        b"\xff\xd8\xff\xe0\x00\x04JF"
        + b"\xff\xff\xc2\x00\x0b\x08"
        + struct.pack(">HH", height, width)
        + b"\x03"
    )


def webp(chunk: bytes, rest: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + chunk + b"\x00\x00\x00\x00" + rest


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(), "png"),
        (jpeg(), "jpeg"),
        (webp(b"VP8X", bytes(4) + b"\x27\x00\x00\x13\x00\x00"), "webp"),
        (webp(b"VP8L", b"\x2f" + struct.pack("<I", 39 | 19 << 14)), "webp"),
        (webp(b"VP8 ", bytes(6) + struct.pack("<HH", 40, 20)), "webp"),
    ],
)
def test_what_a_picture_is_and_its_size_are_read_from_its_bytes(data: bytes, kind: str) -> None:
    assert parse_image(data) == Image(kind, 40, 20)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "must be a PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "must be a PNG"),
        (b"GIF89a" + bytes(100), "must be a PNG"),
        (png()[:18], "must be a PNG"),
        (jpeg()[:12], "must be a PNG"),
        (b"\xff\xd8\xff\xe0" + bytes(50), "must be a PNG"),
        (webp(b"EVIL", bytes(30)), "must be a PNG"),
        (png(width=2001), "not 2001 by 20"),
        (png(height=0), "not 40 by 0"),
        (png() + bytes(LARGEST_BYTES), "at most 200,000 bytes"),
    ],
)
def test_a_file_that_is_no_picture_or_too_large_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refused:
        parse_image(data)
    assert refused.value.field == "logo"


@given(
    st.sampled_from([b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF0000WEBPVP8 ", b""]),
    st.binary(max_size=200),
)
def test_any_bytes_are_a_picture_or_refused(start: bytes, rest: bytes) -> None:
    try:
        assert parse_image(start + rest).width > 0
    except Invalid:
        return
