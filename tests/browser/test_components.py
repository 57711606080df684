"""The page of all components looks as it was approved, in both themes.

A change of a token or a component changes this picture: see `approving.py`. Colours and sizes are
compared exactly, as the browser computes them: that is the same everywhere.
"""

from __future__ import annotations

import re

from PIL import Image
from playwright.async_api import Browser, Page, Route

from postroom.services.accounts.users import Role
from tests.browser.support.approving import FONT, ApprovedPictures, require_font, small
from tests.browser.support.chromium import window
from tests.web.site import Site

WINDOW = (1280, 900)


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
    for (const part of ["::before", "::after"]) {
      const drawn = getComputedStyle(each, part);
      if (drawn.content !== "none") found[kind + part] ??= `${drawn.content} ${drawn.color}`;
    }
  }
  return found;
}"""


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
        found[name] = small(await part.screenshot(animations="disabled"))
    return found


async def test_components_look_as_approved(browser: Browser, site: Site) -> None:
    require_font()
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
            faults += ApprovedPictures("components", theme).faults(seen, styles)
        assert faults == [], "look at /system/components, then approve the change"
