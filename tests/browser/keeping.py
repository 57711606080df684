"""Pictures of a story, to be looked at: `POSTROOM_PICTURES=build/newcomer make test ARGS=…` keeps
them in that folder, on a desk and on a phone, light and dark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import Page

from tests.browser.support.chromium import DESKTOP, PHONE

_FOLDER: Final = os.environ.get("POSTROOM_PICTURES", "")
_SIZES: Final = {"desktop": DESKTOP, "phone": PHONE}
_SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
_TALLEST: Final = 2400


async def keep_pictures(page: Page, name: str) -> None:
    """Keep what the page shows now, if somebody wants to look at it; leave the page as it is."""
    if not _FOLDER:
        return
    before = page.viewport_size
    for size, (width, height) in _SIZES.items():
        for scheme in _SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            await page.set_viewport_size({"width": width, "height": height})
            await page.wait_for_timeout(400)  # pictures only: frames are fitted again
            tall = await page.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": min(max(height, tall), _TALLEST)}
            await page.screenshot(
                path=Path(_FOLDER) / f"{name}-{size}-{scheme}.png",
                full_page=True,
                clip=clip,  # type: ignore[arg-type]
                animations="disabled",
            )
    await page.emulate_media(color_scheme=None)
    if before is not None:
        await page.set_viewport_size(before)
