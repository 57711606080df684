"""Pictures to upload."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

Colour = tuple[int, int, int] | tuple[int, int, int, int]
RED: Colour = (200, 30, 30)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def picture(
    kind: str = "PNG", size: tuple[int, int] = (40, 30), colour: Colour = RED, **options: Any
) -> bytes:
    """A file in one colour."""
    return encoded(Image.new("RGBA" if len(colour) == 4 else "RGB", size, colour), kind, **options)


def animation(kind: str = "GIF", size: tuple[int, int] = (60, 40)) -> bytes:
    """Three frames of 100, 200 and 300 milliseconds, for ever."""
    frames = [Image.new("RGB", size, each) for each in ("red", "green", "blue")]
    return encoded(
        frames[0], kind, save_all=True, append_images=frames[1:], duration=[100, 200, 300], loop=0
    )


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))
