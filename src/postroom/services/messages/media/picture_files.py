"""Decodes uploaded pictures and encodes them again.

What is stored is written by Pillow from the pixels alone. There is no metadata: a phone's EXIF has
the place where a photo was taken. And nothing hides before, behind or between the pixels, such as a
script in a file that is a GIF and a web page at the same time. The format is recognised by its
content; names and content types of uploads are not trusted.

Pillow is imported by the first upload: nothing else needs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import warnings
from typing import TYPE_CHECKING, Any, Final

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.pictures import (
    LARGEST_FILE,
    MOST_ANIMATED_PIXELS,
    MOST_FRAMES,
    MOST_PIXELS,
    WIDEST,
    PictureHash,
    PictureKind,
)

if TYPE_CHECKING:
    from PIL import Image

FIELD: Final = "file"
_FORMATS: Final = ("JPEG", "PNG", "GIF", "WEBP")
_QUALITY: Final = 85  # of JPEG: above it, files grow, but nobody sees a difference
_LOSSLESS_WEBP: Final = b"VP8L"  # RFC 9649, section 2.6
_HALF: Final = 128  # of 255: GIF knows only opaque and transparent


class EncodedPicture(msgspec.Struct, frozen=True):
    """A picture as it is stored."""

    kind: PictureKind
    data: bytes
    width: int
    height: int
    is_animated: bool

    @property
    def hash(self) -> PictureHash:
        return PictureHash(hashlib.sha256(self.data).hexdigest())


def check_size(size: int) -> None:
    """Raise `Invalid` if a file is too large to be uploaded."""
    if size > LARGEST_FILE:
        most = f"{LARGEST_FILE:,} bytes, not {size:,}"
        raise Invalid(FIELD, f"must be at most {most}: scale it down")


def encode_again(data: bytes) -> EncodedPicture:
    """Return an uploaded picture as it is stored. `Invalid`.

    WebP becomes JPEG or PNG, and GIF if it is animated, because some email programs do not show it.
    This takes up to some seconds: call it in a thread.
    """
    check_size(len(data))
    image = _opened(data)
    try:
        return _encoded(image, data)
    except Invalid:
        raise
    except Exception as exc:  # for damaged files, decoders raise whatever comes up
        raise Invalid(FIELD, f"is damaged: the {image.format} picture cannot be decoded") from exc


def _opened(data: bytes) -> Image.Image:
    """Return the picture with its header read, and not a pixel more."""
    from PIL import Image

    # Our own limit is lower than the one that this warns of.
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as exc:
        raise Invalid(FIELD, f"must have at most {MOST_PIXELS:,} pixels: scale it down") from exc
    except Exception as exc:  # as above
        raise Invalid(
            FIELD, f"must be a JPEG, PNG, GIF or WebP picture{_actual_format(data)}"
        ) from exc
    pixels = image.width * image.height
    if pixels > MOST_PIXELS:
        raise Invalid(
            FIELD,
            f"must have at most {MOST_PIXELS:,} pixels, not {pixels:,}"
            f" ({image.width:,} by {image.height:,}): scale it down",
        )
    return image


def _actual_format(data: bytes) -> str:
    """Return what to say about a format that the author can convert; empty for any other."""
    start = data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<svg", b"<?xml", b"<!doctype svg")) or b"<svg" in start:
        return ", not SVG: export it as PNG"
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif"):
        return ", not HEIC or AVIF: export it as JPEG"
    return ""


def _encoded(image: Image.Image, data: bytes) -> EncodedPicture:
    if image.format in ("GIF", "WEBP") and getattr(image, "is_animated", False):
        return _animation(image)
    kind = _kind(image, data)
    image.draft("RGB", (WIDEST, WIDEST))  # JPEG: decode at a lower resolution where that suffices
    picture = _in_srgb(_scaled(_upright(image)), kind)
    file = io.BytesIO()
    if kind is PictureKind.JPEG:
        picture.save(file, "JPEG", quality=_QUALITY, optimize=True, progressive=True)
    else:
        picture.save(file, kind.value, optimize=True)
    return _checked(kind, file, picture, is_animated=False)


def _kind(image: Image.Image, data: bytes) -> PictureKind:
    match image.format:
        case "JPEG":
            return PictureKind.JPEG
        case "GIF":
            return PictureKind.GIF
        case "WEBP" if not image.has_transparency_data and data[12:16] != _LOSSLESS_WEBP:
            return PictureKind.JPEG
        case _:
            return PictureKind.PNG


def _upright(image: Image.Image) -> Image.Image:
    """Return the picture turned as its EXIF says, which is removed."""
    from PIL import ImageOps

    with contextlib.suppress(SyntaxError, ValueError, TypeError, KeyError):  # unreadable EXIF
        return ImageOps.exif_transpose(image)
    return image


def _scaled(image: Image.Image) -> Image.Image:
    """Return the picture at most as wide as pictures are stored, in a mode that can be scaled."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which converting would cut off instead of scaling
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.width <= WIDEST:
        return image
    if image.mode in ("1", "P", "PA") or "transparency" in image.info:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    height = max(1, round(image.height * WIDEST / image.width))
    return image.resize((WIDEST, height), Image.Resampling.LANCZOS)


def _in_srgb(image: Image.Image, kind: PictureKind) -> Image.Image:
    """Return the picture in a mode of its format, without metadata, in the colours that every
    program assumes: phones take photos in others."""
    from PIL import ImageCms

    profile = image.info.get("icc_profile")
    if profile and image.mode in ("RGB", "CMYK"):
        # A colour profile that cannot be read is ignored, as browsers do.
        with contextlib.suppress(ImageCms.PyCMSError, OSError, ValueError):
            converted = ImageCms.profileToProfile(
                image,
                ImageCms.ImageCmsProfile(io.BytesIO(profile)),
                ImageCms.createProfile("sRGB"),
                outputMode="RGB",
            )
            image = converted or image
    if kind is PictureKind.JPEG:
        image = image if image.mode in ("L", "RGB") else image.convert("RGB")
    elif image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    return _without_metadata(image)


def _without_metadata(image: Image.Image) -> Image.Image:
    image.load()
    clean = image.copy()
    clean.info = {name: image.info[name] for name in ("transparency",) if name in image.info}
    return clean


def _animation(image: Image.Image) -> EncodedPicture:
    frames = _frames(image)
    if not any(_is_transparent(each) for each in frames):
        frames = [_as_frame(each.convert("RGB"), each) for each in frames]
        options: dict[str, Any] = {}
    else:
        options = {"disposal": 2}  # a frame does not show through the holes of the next one
    if "loop" in image.info:
        options["loop"] = image.info["loop"]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], **options)
    return _checked(PictureKind.GIF, file, frames[0], is_animated=True)


def _frames(image: Image.Image) -> list[Image.Image]:
    """Return the frames as they are seen, each whole."""
    from PIL import ImageSequence

    frames: list[Image.Image] = []
    pixels = 0
    for frame in ImageSequence.Iterator(image):
        pixels += image.width * image.height
        if len(frames) == MOST_FRAMES:
            raise Invalid(FIELD, f"must have at most {MOST_FRAMES:,} frames: make it shorter")
        if pixels > MOST_ANIMATED_PIXELS:
            raise Invalid(
                FIELD,
                f"must have at most {MOST_ANIMATED_PIXELS:,} pixels in all frames together:"
                " make it smaller or shorter",
            )
        frames.append(_as_frame(_scaled(frame.convert("RGBA")), frame))
    return frames


def _as_frame(picture: Image.Image, of: Image.Image) -> Image.Image:
    picture.info = {"duration": of.info.get("duration", 100)}
    return picture


def _is_transparent(frame: Image.Image) -> bool:
    return any(frame.getchannel("A").histogram()[:_HALF])


def _checked(
    kind: PictureKind, file: io.BytesIO, picture: Image.Image, *, is_animated: bool
) -> EncodedPicture:
    data = file.getvalue()
    check_size(len(data))
    return EncodedPicture(kind, data, picture.width, picture.height, is_animated)
