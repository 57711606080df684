"""Approved pictures: what somebody has looked at and found good, kept next to the tests.

Pictures of two machines are never equal to the pixel. They are compared at a quarter of their size,
where the edges of letters no longer matter, and drawn with the same font everywhere.

`POSTROOM_APPROVE=1 make test ARGS=…` writes them again: look at them, and commit them.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageChops, ImageStat

from tests.services.missing import require

FOLDER: Final = Path(__file__).parents[1] / "approved"
FONT: Final = "Noto Sans"
SCALE: Final = 4
TILE: Final = 6  # pixels of the small picture: 24 of the page
# Of 255. A tile of text that another version of the browser has drawn differs by about 10; one with
# another colour, or in which something is missing, by more than 40.
MOST_IN_A_TILE: Final = 32
MOST_IN_ALL: Final = 4.0
NEARLY: Final = 2  # pixels of the small picture by which a component may be higher


def require_font() -> None:
    """End the test without the font that scripts/install-services installs: with it, lines break at
    the same words everywhere."""
    if (
        shutil.which("fc-list") is None
        or FONT
        not in subprocess.run(
            ["fc-list", ":", "family"], capture_output=True, text=True, check=True
        ).stdout
    ):
        require(FONT, "apt-get install fonts-noto-core")


def small(png: bytes) -> Image.Image:
    """Return a screenshot as it is compared."""
    whole = Image.open(io.BytesIO(png)).convert("RGB")
    return whole.resize((whole.width // SCALE, whole.height // SCALE), Image.Resampling.BOX)


def unlike(seen: Image.Image, approved: Image.Image) -> str:
    """Return what differs by more than a machine can make it differ; "" if nothing does."""
    if abs(seen.width - approved.width) > NEARLY or abs(seen.height - approved.height) > NEARLY:
        return f"is {seen.size}, not {approved.size} (a quarter of its pixels)"
    size = (min(seen.width, approved.width), min(seen.height, approved.height))
    difference = ImageChops.difference(seen.crop((0, 0, *size)), approved.crop((0, 0, *size)))
    of_all = max(ImageStat.Stat(difference).mean)
    if of_all > MOST_IN_ALL:
        return f"differs by {of_all:.1f} of 255"
    tiles = difference.crop((0, 0, size[0] // TILE * TILE, size[1] // TILE * TILE)).reduce(TILE)
    for number, pixel in enumerate(zip(*(each.tobytes() for each in tiles.split()), strict=True)):
        if max(pixel) > MOST_IN_A_TILE:
            top, left = (each * TILE * SCALE for each in divmod(number, tiles.width))
            return f"differs by {max(pixel)} of 255 at {left}, {top}"
    return ""


class ApprovedPictures:
    """The approved pictures of one kind, such as `components`, in one theme: one above the other in
    one file, with their sizes in another, which has their styles, too."""

    def __init__(self, kind: str, theme: str) -> None:
        self._theme = theme
        self._sheet = FOLDER / f"{kind}-{theme}.png"
        self._notes = FOLDER / f"{kind}.json"

    def faults(
        self, seen: Mapping[str, Image.Image], styles: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return what differs from what is approved. With `POSTROOM_APPROVE`, approve it first."""
        if os.environ.get("POSTROOM_APPROVE"):
            self._approve(seen, styles or {})
        notes = self._stored()[self._theme]
        assert dict(styles or {}) == notes["styles"], "approve the change"
        assert list(seen) == list(notes["sizes"]), "approve the new list of pictures"
        approved = self._load(notes["sizes"])
        found = {name: unlike(picture, approved[name]) for name, picture in seen.items()}
        return [f"{self._theme} {name} {fault}" for name, fault in found.items() if fault]

    def _stored(self) -> dict[str, dict[str, Any]]:
        if not self._notes.exists():
            return {}
        found: dict[str, dict[str, Any]] = json.loads(self._notes.read_text())
        return found

    def _load(self, sizes: Mapping[str, list[int]]) -> dict[str, Image.Image]:
        sheet = Image.open(self._sheet).convert("RGB")
        found, top = {}, 0
        for name, (width, height) in sizes.items():
            found[name] = sheet.crop((0, top, width, top + height))
            top += height
        return found

    def _approve(self, seen: Mapping[str, Image.Image], styles: Mapping[str, str]) -> None:
        FOLDER.mkdir(exist_ok=True)
        width = max(each.width for each in seen.values())
        sheet = Image.new("RGB", (width, sum(each.height for each in seen.values())))
        top = 0
        for each in seen.values():
            sheet.paste(each, (0, top))
            top += each.height
        sheet.save(self._sheet, optimize=True)
        sizes = {name: list(each.size) for name, each in seen.items()}
        everything = {**self._stored(), self._theme: {"sizes": sizes, "styles": dict(styles)}}
        self._notes.write_text(json.dumps(everything, indent=1) + "\n")
