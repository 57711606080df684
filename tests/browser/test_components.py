"""The page of all components looks as it was approved, in both themes.

A change of a token or a component changes this picture: look at it, then approve it with
`POSTROOM_APPROVE=1 make test ARGS=tests/browser/test_components.py`, and commit both.

Colours and sizes are compared exactly, as the browser computes them: that is the same everywhere.
Pictures of two machines are never equal to the pixel. Each component is compared on its own, at a
quarter of its size, where the edges of letters no longer matter, and with the same font everywhere.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat
from playwright.async_api import Browser, Page, Route

from postroom.services.accounts.users import Role
from tests.browser.chromium import window
from tests.services.missing import require
from tests.web.site import Site

APPROVED = Path(__file__).parent / "approved"
FONT = "Noto Sans"
SCALE = 4
WINDOW = (1280, 900)
TILE = 6  # pixels of the small picture: 24 of the page
# Of 255. A tile of text that another version of the browser has drawn differs by about 10; one with
# another colour, or in which something is missing, by more than 40.
MOST_IN_A_TILE = 32.0
MOST_IN_ALL = 4.0
NEARLY = 2  # pixels of the small picture by which a component may be higher


# What is computed from the tokens and does not depend on fonts or the size of a window.
STYLES = """(theme) => {
  const names = ["color", "backgroundColor", "borderTopColor", "borderTopLeftRadius", "fontSize",
    "fontWeight", "minHeight", "paddingTop", "paddingLeft"];
  const all = document.querySelectorAll(`[data-theme="${theme}"] [data-specimen] *:not(svg *)`);
  const found = {};
  for (const each of all) {
    const kind = [each.localName, ...each.classList].join(".");
    const style = getComputedStyle(each);
    found[kind] ??= names.map((name) => style[name]).join(" ");
  }
  return found;
}"""


@pytest.fixture
def font() -> None:
    """The font that scripts/install-services installs, so that lines break at the same words."""
    if (
        shutil.which("fc-list") is None
        or FONT
        not in subprocess.run(
            ["fc-list", ":", "family"], capture_output=True, text=True, check=True
        ).stdout
    ):
        require(FONT, "apt-get install fonts-noto-core")


async def with_one_font(route: Route) -> None:
    """Serve the tokens with the font of the pictures instead of the system's."""
    answer = await route.fetch()
    text = await answer.text()
    changed = re.sub(r"--font(-code)?: [^;]+;", rf'--font\1: "{FONT}";', text)
    assert changed != text
    await route.fulfill(response=answer, body=changed)


async def pictures(page: Page, theme: str) -> dict[str, Image.Image]:
    found = {}
    for part in await page.locator(f'[data-theme="{theme}"] [data-specimen]').all():
        name = await part.get_attribute("data-specimen")
        assert name is not None
        png = Image.open(io.BytesIO(await part.screenshot(animations="disabled"))).convert("RGB")
        small = png.resize((png.width // SCALE, png.height // SCALE), Image.Resampling.BOX)
        found[name] = small
    return found


def unlike(seen: Image.Image, approved: Image.Image) -> str:
    """What differs by more than a machine can make it differ; "" if nothing does."""
    if abs(seen.width - approved.width) > NEARLY or abs(seen.height - approved.height) > NEARLY:
        return f"is {seen.size}, not {approved.size} (a quarter of its pixels)"
    size = (min(seen.width, approved.width), min(seen.height, approved.height))
    difference = ImageChops.difference(seen.crop((0, 0, *size)), approved.crop((0, 0, *size)))
    of_all = max(ImageStat.Stat(difference).mean)
    if of_all > MOST_IN_ALL:
        return f"differs by {of_all:.1f} of 255"
    for left in range(0, size[0] - TILE + 1, TILE):
        for top in range(0, size[1] - TILE + 1, TILE):
            tile = difference.crop((left, top, left + TILE, top + TILE))
            of_tile = max(ImageStat.Stat(tile).mean)
            if of_tile > MOST_IN_A_TILE:
                return f"differs by {of_tile:.1f} of 255 at {left * SCALE}, {top * SCALE}"
    return ""


def stored() -> dict[str, dict[str, Any]]:
    file = APPROVED / "components.json"
    found: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def load(theme: str) -> dict[str, Image.Image]:
    """The approved pictures: one above the other in one file, with their sizes in another."""
    sheet = Image.open(APPROVED / f"components-{theme}.png").convert("RGB")
    sizes: dict[str, list[int]] = stored()[theme]["sizes"]
    found, top = {}, 0
    for name, (width, height) in sizes.items():
        found[name] = sheet.crop((0, top, width, top + height))
        top += height
    return found


def approve(theme: str, seen: dict[str, Image.Image], styles: dict[str, str]) -> None:
    APPROVED.mkdir(exist_ok=True)
    width = max(each.width for each in seen.values())
    sheet = Image.new("RGB", (width, sum(each.height for each in seen.values())))
    top = 0
    for each in seen.values():
        sheet.paste(each, (0, top))
        top += each.height
    sheet.save(APPROVED / f"components-{theme}.png", optimize=True)
    sizes = {name: list(each.size) for name, each in seen.items()}
    everything = {**stored(), theme: {"sizes": sizes, "styles": styles}}
    (APPROVED / "components.json").write_text(json.dumps(everything, indent=1) + "\n")


async def test_components_look_as_approved(browser: Browser, site: Site, font: None) -> None:
    viewer = await site.user(Role.VIEWER)
    async with window(browser, site.url, WINDOW, whose=viewer) as context:
        page = await context.new_page()
        await page.route("**/css/tokens.css*", with_one_font)
        await page.goto("/system/components")
        await page.evaluate("() => document.fonts.ready")
        faults = []
        for theme in ("light", "dark"):
            seen = await pictures(page, theme)
            styles: dict[str, str] = await page.evaluate(STYLES, theme)
            if os.environ.get("POSTROOM_APPROVE"):
                approve(theme, seen, styles)
            assert styles == stored()[theme]["styles"], "approve the change as said above"
            approved = load(theme)
            assert list(seen) == list(approved), "approve the new list of components"
            for name, picture in seen.items():
                if found := unlike(picture, approved[name]):
                    faults.append(f"{theme} {name} {found}")
        assert faults == [], "look at /system/components, then approve the change as said above"
