"""Pictures in messages: what is stored, under which name, and which pictures a source uses."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.plain_text import one_line, printable

PictureHash = NewType("PictureHash", str)
"""The SHA-256 of the stored bytes, as 64 lower-case hexadecimal digits."""

LARGEST_FILE: Final = 5_000_000
"""Bytes of an uploaded picture, and of a stored one."""
MOST_PIXELS: Final = 40_000_000
"""Of one picture. Decoding a small file with too many of them would fill the memory."""
MOST_ANIMATED_PIXELS: Final = 50_000_000
MOST_FRAMES: Final = 1_000
"""Of all frames of an animation together: for example 190 frames of 640 by 400."""
WIDEST: Final = 1200
"""Pixels. Twice the 600 of an email, for screens with two pixels per point."""
LONGEST_NAME: Final = 200
LONGEST_ALT: Final = 500
PATH: Final = "/media/"

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class PictureKind(StrEnum):
    """How pictures are stored, by file extension. Email programs show all of these; some of them do
    not show WebP."""

    JPEG = "jpg"
    PNG = "png"
    GIF = "gif"

    @property
    def content_type(self) -> str:
        return "image/jpeg" if self is PictureKind.JPEG else f"image/{self.value}"


class Picture(msgspec.Struct, frozen=True):
    """A stored picture without its bytes."""

    hash: PictureHash
    kind: PictureKind
    name: str
    alt: str
    size: int
    width: int
    height: int
    is_animated: bool
    uploaded_at: datetime
    uploaded_by: str
    etag: str = ""

    @property
    def file_name(self) -> str:
        """The name of its blob, and the last part of its URL."""
        return f"{self.hash}.{self.kind.value}"

    @property
    def path(self) -> str:
        return PATH + self.file_name


def parse_hash(text: str) -> PictureHash:
    """Return the name of a picture. `Invalid`."""
    if not isinstance(text, str) or not _HASH.fullmatch(text):
        raise Invalid("hash", "must have 64 hexadecimal digits in lower case")
    return PictureHash(text)


def parse_file_name(text: str) -> tuple[PictureHash, PictureKind]:
    """Return hash and kind from the last part of a picture's URL. `Invalid`."""
    name, _, extension = text.partition(".")
    try:
        return parse_hash(name), PictureKind(extension)
    except ValueError as exc:
        raise Invalid("name", "must be a hash and an extension, as in 4f….png") from exc


def name_from_file(file_name: str) -> str:
    """Return the name of an uploaded file as it is shown: without folders, and never empty."""
    last = re.split(r"[/\\]", file_name)[-1].strip()
    return printable(last, longest=LONGEST_NAME) or "picture"


def checked_alt(text: str) -> str:
    """Return the alternative text of a picture. `Invalid`."""
    return one_line("alt", text, longest=LONGEST_ALT, required=False)


# The slash may be escaped in JSON, in HTML and in a URL inside another one.
_USE = re.compile(
    r"media(?:\\?/|%2[Ff]|&(?:#47|#[Xx]2[Ff]|sol);)([0-9a-f]{64})\."
    rf"(?:{'|'.join(PictureKind)})(?![0-9A-Za-z])"
)


def media_in(source: str) -> frozenset[PictureHash]:
    """Return the pictures whose URLs occur in a source: HTML, text, Markdown, MJML or JSON."""
    return frozenset(map(PictureHash, _USE.findall(source)))
