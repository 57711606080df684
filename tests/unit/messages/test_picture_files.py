"""Uploaded pictures, encoded again: what stays of them, and what is refused."""

import struct
import subprocess
import sys
import time
import zlib

import pytest
from PIL import Image, ImageCms

from postroom.domain.errors import Invalid
from postroom.domain.messages.pictures import (
    MOST_ANIMATED_PIXELS,
    WIDEST,
    PictureKind,
    media_in,
    name_from_file,
)
from postroom.services.messages.media.picture_files import encode_again
from tests.services.pictures import animation, encoded, opened, picture

HASH, OTHER = "0123456789abcdef" * 4, "f" * 64
GPS, ORIENTATION, MAKER = 0x8825, 0x0112, 0x010F


def photo(kind: str) -> bytes:
    """A photo taken on its side, which says where and with what."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # its right side is up
    exif[GPS] = {1: "N", 2: (52.0, 31.0, 12.0), 3: "E", 4: (13.0, 24.0, 18.0)}
    exif[MAKER] = "Contoso Phone"
    image = Image.new("RGB", (60, 40), "blue")
    image.paste("red", (0, 0, 30, 40))  # the left half, which will be the upper one
    return encoded(image, kind, exif=exif)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_place_of_a_photo_is_removed_after_it_was_turned_upright(kind: str) -> None:
    uploaded = photo(kind)
    assert b"Contoso Phone" in uploaded
    assert dict(opened(uploaded).getexif().get_ifd(GPS))

    stored = encode_again(uploaded)

    seen = opened(stored.data)
    assert b"Contoso" not in stored.data
    assert b"Exif" not in stored.data
    assert not dict(seen.getexif())
    assert (stored.width, stored.height) == seen.size == (40, 60)
    top, bottom = (seen.convert("RGB").getpixel((20, y)) for y in (5, 55))
    assert isinstance(top, tuple)
    assert isinstance(bottom, tuple)
    assert top[0] > 200 > 60 > top[2]
    assert bottom[2] > 200 > 60 > bottom[0]


@pytest.mark.parametrize(
    ("uploaded", "kind"),
    [
        (picture("JPEG"), PictureKind.JPEG),
        (picture("PNG"), PictureKind.PNG),
        (picture("PNG", colour=(1, 2, 3, 100)), PictureKind.PNG),
        (picture("GIF"), PictureKind.GIF),
        (picture("WEBP"), PictureKind.JPEG),
        (picture("WEBP", colour=(1, 2, 3, 100)), PictureKind.PNG),
        (picture("WEBP", lossless=True), PictureKind.PNG),
        (encoded(Image.new("CMYK", (20, 20)), "JPEG"), PictureKind.JPEG),
        (encoded(Image.new("I;16", (2000, 20), 40_000), "PNG"), PictureKind.PNG),
        (encoded(Image.new("1", (2000, 20)), "PNG"), PictureKind.PNG),
        (encoded(Image.new("LA", (2000, 20), (90, 90)), "PNG"), PictureKind.PNG),
    ],
)
def test_every_kind_is_stored_in_a_format_that_all_mail_clients_show(
    uploaded: bytes, kind: PictureKind
) -> None:
    stored = encode_again(uploaded)
    assert stored.kind is kind
    assert Image.MIME[opened(stored.data).format or ""] == kind.content_type
    assert opened(stored.data).has_transparency_data == opened(uploaded).has_transparency_data
    assert stored.width <= WIDEST
    assert encode_again(uploaded).hash == stored.hash


def test_a_wide_picture_is_scaled_to_twice_the_width_of_an_email() -> None:
    stored = encode_again(picture("JPEG", (4000, 1000)))
    assert (stored.width, stored.height) == opened(stored.data).size == (1200, 300)
    assert encode_again(picture("PNG", (1200, 3000))).height == 3000


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_an_animation_stays_animated_with_its_times(kind: str) -> None:
    stored = encode_again(animation(kind, (1600, 40)))
    seen = opened(stored.data)
    assert (stored.kind, stored.is_animated, seen.size) == (PictureKind.GIF, True, (1200, 30))
    assert seen.info["loop"] == 0
    times = []
    for number in range(3):
        seen.seek(number)
        times.append(seen.info["duration"])
    assert times == [100, 200, 300]


def test_colours_of_a_profile_become_those_of_every_screen() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB", 5000)).tobytes()
    stored = encode_again(picture("JPEG", icc_profile=profile))  # one that does not fit: ignored
    assert "icc_profile" not in opened(stored.data).info


HOSTILE = b"/*<html><script>fetch('/users')</script></html>*/"


@pytest.mark.parametrize(
    "polyglot",
    [
        picture("GIF", comment=HOSTILE),
        picture("GIF") + HOSTILE,
        picture("JPEG", comment=HOSTILE),
        picture("JPEG") + HOSTILE,
        picture("PNG") + HOSTILE,
        picture("PNG", icc_profile=HOSTILE),
        picture("WEBP") + HOSTILE,
        picture("WEBP", xmp=HOSTILE),
    ],
)
def test_what_hides_in_a_picture_is_not_stored(polyglot: bytes) -> None:
    stored = encode_again(polyglot)
    assert b"script" not in stored.data
    assert opened(stored.data).size == (40, 30)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not SVG: export it as PNG"),
        (b"<?xml version='1.0'?>\n<!-- x -->\n<svg/>", "not SVG"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "not HEIC or AVIF: export it as JPEG"),
        (b"GIF89a/*" + HOSTILE, "must be a JPEG, PNG, GIF or WebP picture"),
        (b"\xff\xd8\xff" + HOSTILE, "must be a JPEG"),
        (b"", "must be a JPEG"),
        (b"BM" + bytes(100), "must be a JPEG"),
        (picture("PNG", (400, 400), (9, 9, 9))[:-60], "is damaged"),
        (picture("JPEG", (400, 400))[:700], "is damaged"),
        (bytes(5_000_001), "must be at most 5,000,000 bytes, not 5,000,001"),
    ],
)
def test_a_file_that_is_not_a_picture_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        encode_again(data)
    assert refused.value.field == "file"
    assert problem in refused.value.problem


def bomb(width: int, height: int) -> bytes:
    """A small file of many pixels, made without them: the picture's size is changed afterwards."""
    data = picture("PNG", (8, 8))
    header = data[12:16] + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]


@pytest.mark.parametrize("size", [(8000, 5001), (10_000, 10_000), (60_000, 60_000)])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(size: tuple[int, int]) -> None:
    began = time.monotonic()
    with pytest.raises(Invalid, match="must have at most 40,000,000 pixels"):
        encode_again(bomb(*size))
    assert time.monotonic() - began < 5


def test_an_animation_of_too_many_frames_is_refused() -> None:
    count = MOST_ANIMATED_PIXELS // 4_000_000 + 1
    frames = [Image.new("L", (2000, 2000), number) for number in range(count)]
    with pytest.raises(Invalid, match="make it smaller or shorter"):
        encode_again(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))


def test_pillow_is_loaded_by_the_first_upload_only() -> None:
    code = "import sys, postroom.web.app; print('PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "source",
    [
        f'<img src="https://mail.contoso.com/media/{HASH}.png">',
        f"![A cat](/media/{HASH}.jpg)",
        f'{{"src": "https:\\/\\/contoso.com\\/media\\/{HASH}.gif"}}',
        f"https://proxy.example/?url=https%3A%2F%2Fcontoso.com%2fmedia%2F{HASH}.png",
        f"<td background=&quot;/media&#47;{HASH}.png&quot;>",
        f"<mj-image src='/media/{HASH}.png?x=1' />",
    ],
)
def test_a_use_is_found_in_every_format(source: str) -> None:
    assert media_in(source) == {HASH}
    assert media_in(f"{source} {source.replace(HASH, OTHER)}") == {HASH, OTHER}


@pytest.mark.parametrize(
    "source", ["", HASH, f"/media/{HASH}", f"/media/{HASH}.pngx", f"/media/{HASH[:-1]}.png"]
)
def test_nothing_else_counts_as_a_use(source: str) -> None:
    assert media_in(source) == set()


def test_a_file_name_is_shown_without_folders() -> None:
    assert name_from_file("C:\\photos\\a cat.png") == "a cat.png"
    assert name_from_file("../../etc/passwd") == "passwd"
    assert name_from_file("  ") == "picture"
    assert len(name_from_file("x" * 1000)) == 200
    assert name_from_file("a\r\n\u202eb.png").isprintable()
