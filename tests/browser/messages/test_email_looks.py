"""The built-in templates and all blocks look as they were approved: on a desk and on a phone, light
and dark. Nothing is wider than the window."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
import pytest
from playwright.async_api import Browser, Page

from postroom.composing.builtin import BUILT_IN
from postroom.composing.compiler import compile_source
from postroom.composing.examples import example_html
from postroom.domain.messages.messages import MessageFormat
from tests.browser.support.approving import FONT, ApprovedPictures, require_font, small
from tests.browser.support.chromium import window
from tests.unit.composing.samples import BRAND, EVERY_BLOCK, PICTURES

WIDTHS = (640, 375)
BRANDED = msgspec.structs.replace(BRAND, font=f"'{FONT}'")
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 240 80">'
    '<rect width="240" height="80" fill="#0b6e4f"/></svg>'
)


def documents() -> dict[str, str]:
    """The emails, with a green box for each of their pictures."""
    emails = {
        name: example_html(template.layout, BRANDED, name) for name, template in BUILT_IN.items()
    }
    emails["blocks"] = compile_source(EVERY_BLOCK, MessageFormat.BLOCKS, BRANDED).html
    drawing = f"data:image/svg+xml,{quote(DRAWING)}"
    for name, document in emails.items():
        for picture in ("logo", "a", "p", "column"):
            document = document.replace(f"{PICTURES}/{picture}.png", drawing)
        emails[name] = document
    return emails


async def overflow(page: Page) -> int:
    width: int = await page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    return width


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_emails_look_as_approved(browser: Browser, theme: str) -> None:
    require_font()
    seen, faults = {}, []
    async with window(browser) as context:
        page = await context.new_page()
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        for name, document in documents().items():
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 600})
                await page.set_content(document)
                if wide := await overflow(page):
                    faults.append(f"{theme} {name} is {wide} pixels wider than {width}")
                png = await page.screenshot(full_page=True, animations="disabled")
                seen[f"{name}-{width}"] = small(png)
    assert faults == []
    assert ApprovedPictures("emails", theme).faults(seen) == []
